//! Who may do what. One pure function; a policy language can replace its body later (ruling 28).

use std::collections::BTreeSet;

use provost_model::input::Action;
use provost_model::policy::Role;
use provost_model::record::{Actor, ActorKind, Decision};

/// Whether `actor` with `roles` may ask for `action` at all. Whose a thing is (a hold, an incident) is judged
/// where the thing is known.
pub fn authorize(actor: &Actor, roles: &BTreeSet<Role>, action: &Action) -> Decision {
    let may_ask = matches!(actor.kind, ActorKind::Human | ActorKind::Service);
    let granting: Vec<String> = roles
        .iter()
        .filter(|role| may_ask && grants(**role, action))
        .map(|role| format!("role:{}", role.name()))
        .collect();
    let allow = !granting.is_empty();
    let policies = if allow { granting } else { vec!["default:deny".to_owned()] };
    Decision { allow, policies, roles: roles.iter().map(|role| role.name().to_owned()).collect() }
}

fn grants(role: Role, action: &Action) -> bool {
    match role {
        Role::Viewer => false,
        Role::Service => matches!(action, Action::NodeHold { .. } | Action::HoldRelease { .. }),
        Role::Operator => !needs_admin(action),
        Role::Admin => true,
    }
}

/// What changes the rules themselves, or takes every mark away.
fn needs_admin(action: &Action) -> bool {
    match action {
        Action::BreakerReset | Action::ModeSet { .. } | Action::AgentTokenCreate { .. } | Action::Detach => {
            true
        }
        Action::NodeHold { .. }
        | Action::HoldRelease { .. }
        | Action::NodeDrain { .. }
        | Action::NodeResume { .. }
        | Action::NodeForget { .. }
        | Action::IncidentAck { .. }
        | Action::IncidentNote { .. }
        | Action::IncidentSeverity { .. }
        | Action::IncidentResolve { .. }
        | Action::JobRequeue { .. }
        | Action::SpareActivate { .. }
        | Action::SpareReturn { .. }
        | Action::RunStart { .. }
        | Action::RunApprove { .. }
        | Action::RunPause { .. }
        | Action::RunResume { .. }
        | Action::RunRetry { .. }
        | Action::RunSkip { .. }
        | Action::RunAbort { .. }
        | Action::RunAnswer { .. }
        | Action::GuardStop
        | Action::GuardStart => false,
    }
}
