//! A cable that can be pulled: a network namespace and the one link into it.

use std::process::Command;

use crate::testbed::Testbed;

/// A namespace with an address of its own, and its link. Both are gone when it is dropped.
#[derive(Debug)]
pub struct Cable {
    /// Name of the namespace, and of the near end of the link.
    name: String,
    near: String,
}

impl Cable {
    /// Lays a cable; addresses and names follow the testbed's ports, so that no two are the same.
    ///
    /// # Panics
    /// Where root can't make a namespace.
    #[track_caller]
    pub fn lay(testbed: &Testbed) -> Cable {
        let number = testbed.port(0);
        let (name, far) = (format!("provost{number}"), format!("pvst{number}"));
        let net = format!("10.{}.{}", 128 + number / 256 % 64, number % 256);
        let cable = Cable { name: name.clone(), near: format!("{net}.1") };
        ip(&["netns", "add", &name]);
        ip(&["link", "add", &name, "type", "veth", "peer", "name", &far, "netns", &name]);
        ip(&["address", "add", &format!("{net}.1/30"), "dev", &name]);
        ip(&["link", "set", &name, "up"]);
        ip(&["-n", &name, "address", "add", &format!("{net}.2/30"), "dev", &far]);
        ip(&["-n", &name, "link", "set", &far, "up"]);
        cable
    }

    /// Address of this machine at the near end.
    pub fn near(&self) -> &str {
        &self.near
    }

    /// Name of the namespace at the far end.
    pub(crate) fn namespace(&self) -> &str {
        &self.name
    }

    /// Nothing goes through any more, and nobody is told.
    ///
    /// # Panics
    /// Where the link is gone.
    #[track_caller]
    pub fn pull(&self) {
        ip(&["link", "set", &self.name, "down"]);
    }

    /// All goes through again.
    ///
    /// # Panics
    /// Where the link is gone.
    #[track_caller]
    pub fn plug(&self) {
        ip(&["link", "set", &self.name, "up"]);
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // The link goes first: a namespace stays for as long as a program is in it.
        for what in ["link", "netns"] {
            Command::new("ip").args([what, "delete", &self.name]).status().ok();
        }
    }
}

#[track_caller]
fn ip(args: &[&str]) {
    let done = Command::new("ip").args(args).status().expect("iproute2 is installed");
    assert!(done.success(), "ip {} failed", args.join(" "));
}
