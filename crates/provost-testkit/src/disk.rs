//! A disk of its own for a data directory, which can be filled and can break.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system of 64 MiB; gone when it is dropped.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
}

impl Disk {
    /// In memory.
    ///
    /// # Panics
    /// Where root can't mount it.
    #[track_caller]
    pub fn in_memory(path: &Path) -> Disk {
        fs::create_dir_all(path).expect("a place for the disk");
        run("mount", &["-t", "tmpfs", "-o", "size=64m", "none", text(path)]);
        Disk { path: path.to_owned() }
    }

    /// An ext4 that turns read-only when it meets an error, as those of most machines do.
    ///
    /// # Panics
    /// Where root can't make or mount it.
    #[track_caller]
    pub fn that_can_break(path: &Path) -> Disk {
        fs::create_dir_all(path).expect("a place for the disk");
        let disk = Disk { path: path.to_owned() };
        File::create(disk.image()).and_then(|file| file.set_len(64 << 20)).expect("an image of the disk");
        run("mkfs.ext4", &["-q", text(&disk.image())]);
        disk.mount();
        disk
    }

    fn mount(&self) {
        run("mount", &["-o", "loop,errors=remount-ro", text(&self.image()), text(&self.path)]);
    }

    /// The file that the ext4 is in.
    fn image(&self) -> PathBuf {
        self.path.with_extension("img")
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes all the space that there is.
    ///
    /// # Panics
    /// Where nothing can be written at all.
    #[track_caller]
    pub fn fill(&self) {
        let mut ballast = File::create(self.path.join("ballast")).expect("a file on the disk");
        for size in [1 << 20, 4_096, 1] {
            let piece = vec![1_u8; size];
            while ballast.write_all(&piece).is_ok() {}
        }
    }

    /// Gives it back.
    ///
    /// # Panics
    /// Where it was not filled.
    #[track_caller]
    pub fn free(&self) {
        fs::remove_file(self.path.join("ballast")).expect("the disk was filled");
    }

    /// Meets an error, and is read-only from here on.
    ///
    /// # Panics
    /// Where the kernel has no way to do so.
    #[track_caller]
    pub fn break_down(&self) {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("a list of mounts");
        let device = mounts.lines().find_map(|line| line.split_once(&format!(" {} ", text(&self.path))));
        let name = device.and_then(|(device, _)| device.strip_prefix("/dev/")).expect("it is mounted");
        fs::write(format!("/sys/fs/ext4/{name}/trigger_fs_error"), "1").expect("ext4 can be told to fail");
    }

    /// Checks and mounts it anew. Nothing may have a file of it open.
    ///
    /// # Panics
    /// Where it is in use.
    #[track_caller]
    pub fn repair(&self) {
        run("umount", &[text(&self.path)]);
        // Its exit status says how much it mended; whether it is well is seen at the mount.
        Command::new("e2fsck").args(["-y", text(&self.image())]).status().ok();
        self.mount();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a controller that a failing test leaves behind still has its files open.
        Command::new("umount").arg("-l").arg(&self.path).status().ok();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

#[track_caller]
fn run(program: &str, args: &[&str]) {
    let done = Command::new(program).args(args).status().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(done.success(), "{program} {} failed", args.join(" "));
}
