//! What a system boots from next.

use hyper::Method;
use provost_model::effect::EffectResult;
use serde_json::{Value, json};

use super::Bmc;
use super::power::{not_begun, not_done, refused, unknown};
use super::resource;
use super::session::Session;
use super::system::words;

/// What the override says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootSource {
    /// For how long; none where it does not say.
    pub enabled: Option<Enabled>,
    /// From what, in the server's word: `Pxe`.
    pub target: Option<String>,
    /// What may be asked for; none where it does not say.
    pub offered: Option<Vec<String>>,
}

/// For how long an override counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enabled {
    /// Not at all.
    Disabled,
    /// For the next boot.
    Once,
    /// Until somebody takes it back.
    Continuous,
}

impl BootSource {
    pub(super) fn of(system: &Value) -> BootSource {
        let Some(boot) = system.get("Boot") else { return BootSource::default() };
        let enabled = match boot.get("BootSourceOverrideEnabled").and_then(Value::as_str) {
            Some("Disabled") => Some(Enabled::Disabled),
            Some("Once") => Some(Enabled::Once),
            Some("Continuous") => Some(Enabled::Continuous),
            _ => None,
        };
        BootSource {
            enabled,
            target: resource::text(boot, "BootSourceOverrideTarget"),
            offered: words(boot, "BootSourceOverrideTarget@Redfish.AllowableValues"),
        }
    }

    /// It is as it was asked for: `target` for one boot, or no override.
    fn is(&self, target: Option<&str>) -> bool {
        match target {
            Some(target) => self.enabled == Some(Enabled::Once) && self.target.as_deref() == Some(target),
            None => self.enabled == Some(Enabled::Disabled),
        }
    }

    fn told(&self) -> String {
        let target = self.target.as_deref().unwrap_or("unknown");
        match self.enabled {
            None => "unknown".to_owned(),
            Some(Enabled::Disabled) => "no override".to_owned(),
            Some(Enabled::Once) => format!("{target} once"),
            Some(Enabled::Continuous) => format!("{target} always"),
        }
    }
}

/// Writes the override and reads it back. Writing it again does no harm, so nothing here stays ambiguous for long.
pub(super) async fn set(bmc: &Bmc, session: &mut Session<'_>, target: Option<&str>) -> EffectResult {
    let before = match bmc.read_system(session).await {
        Ok(system) => system,
        Err(error) => return not_begun(&error),
    };
    if before.boot.is(target) {
        return EffectResult::Done { observed: before.boot.told(), notes: vec!["already".to_owned()] };
    }
    let offered = before.boot.offered.as_ref();
    if let (Some(target), Some(offered)) = (target, offered)
        && !offered.iter().any(|word| word == target)
    {
        return not_done("not_offered");
    }
    let boot = match target {
        Some(target) => json!({"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": target}),
        None => json!({"BootSourceOverrideEnabled": "Disabled"}),
    };
    match session.send(Method::PATCH, &before.path, Some(json!({"Boot": boot}))).await {
        Ok(answer) if (400..500).contains(&answer.status) => return refused(answer.status),
        Ok(answer) if (200..300).contains(&answer.status) => {}
        Ok(_) => return unknown("failed"),
        Err(error) => return unknown(error.code()),
    }
    match bmc.read_system(session).await {
        Ok(after) if after.boot.is(target) => {
            EffectResult::Done { observed: after.boot.told(), notes: Vec::new() }
        }
        // It took the write and shows something else: `always` where `once` was asked for would boot a node into an
        // installer for ever.
        Ok(_) => not_done("not_kept"),
        Err(error) => unknown(error.code()),
    }
}
