//! The table: every path, what may be asked of it, and what answers. Router, OpenAPI document and tests read it.

use provost_model::view;

use crate::access::Access;
use crate::command::Command;
use crate::cursor::MAX_CURSOR;
use crate::field::{Field, Kind, MAX_NAME, MAX_REASON};
use crate::openapi::{Shape, of};
use crate::verbs::{self, Build};
use crate::views::{self, View};

/// A route.
pub(crate) struct Route {
    pub(crate) verb: Verb,
    /// As the router writes it; at most one part is a name.
    pub(crate) path: &'static str,
    /// One sentence for the document.
    pub(crate) about: &'static str,
    /// Parameters behind `?`.
    pub(crate) query: &'static [Field],
    pub(crate) serves: Serves,
}

/// Methods that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
}

/// What answers.
pub(crate) enum Serves {
    /// The process lives.
    Live,
    /// The controller works.
    Ready,
    /// Counts for Prometheus.
    Metrics,
    /// The description of the interface.
    OpenApi,
    /// Something that State shows.
    View(View),
    /// The story of an incident.
    Timeline,
    /// The search of the journal.
    Audit,
    /// The live stream.
    Events,
    /// A change.
    Command(Command),
}

impl Serves {
    /// Who may use it.
    pub(crate) fn access(&self) -> Access {
        match self {
            Serves::Live | Serves::Ready | Serves::Metrics | Serves::OpenApi => Access::Open,
            Serves::View(_) | Serves::Timeline | Serves::Audit | Serves::Events => Access::Read,
            Serves::Command(_) => Access::Command,
        }
    }
}

/// The rows of a page.
const LIMIT: Field = Field::optional("limit", Kind::Number(1, 500), "rows of a page; 50 where it is absent");
const CURSOR: Field = Field::optional("cursor", Kind::Text(MAX_CURSOR), "`next_cursor` of the page before");
/// Every change needs one; the engine refuses a command without.
const REASON: Field = Field::required("reason", Kind::Text(MAX_REASON), "why; kept sealed");
const PLAN: Field = Field::required("plan", Kind::Text(MAX_NAME), "digest of the plan that was looked at");

const PHASES: &[&str] = &[
    "in_service",
    "suspect",
    "draining",
    "quarantined",
    "diagnosing",
    "remediating",
    "awaiting_repair",
    "revalidating",
    "probation",
    "maintenance",
    "spare",
    "lost",
];
const SEVERITIES: &[&str] = &["sev1", "sev2", "sev3", "sev4"];
const STATES: &[&str] = &["open", "all"];

const fn get(path: &'static str, about: &'static str, query: &'static [Field], serves: Serves) -> Route {
    Route { verb: Verb::Get, path, about, query, serves }
}

const fn view(
    path: &'static str,
    about: &'static str,
    query: &'static [Field],
    shape: Shape,
    make: views::Make,
) -> Route {
    get(path, about, query, Serves::View(View { shape, make }))
}

const fn post(path: &'static str, about: &'static str, fields: &'static [Field], build: Build) -> Route {
    Route { verb: Verb::Post, path, about, query: &[], serves: Serves::Command(Command { fields, build }) }
}

/// Every route.
pub(crate) const ROUTES: &[Route] = &[
    get("/livez", "The process answers.", &[], Serves::Live),
    get("/readyz", "The controller has begun; 503 before.", &[], Serves::Ready),
    get("/metrics", "Counts for Prometheus, without names.", &[], Serves::Metrics),
    get("/openapi.json", "This document.", &[], Serves::OpenApi),
    view(
        "/v1/status",
        "One screen about the whole site.",
        &[],
        Shape::One(of::<view::Status>),
        views::status,
    ),
    view(
        "/v1/nodes",
        "Nodes, by name.",
        &[Field::optional("phase", Kind::Choices(PHASES), "only nodes in these phases"), LIMIT, CURSOR],
        Shape::Page(of::<view::Node>),
        views::nodes,
    ),
    view("/v1/nodes/{id}", "A node, by id or name.", &[], Shape::One(of::<view::Node>), views::node),
    view(
        "/v1/gpus",
        "GPUs, by node and index.",
        &[Field::optional("node", Kind::Text(MAX_NAME), "only GPUs of this node, by name"), LIMIT, CURSOR],
        Shape::Page(of::<view::Gpu>),
        views::gpus,
    ),
    view("/v1/gpus/{id}", "A GPU, by id.", &[], Shape::One(of::<view::Gpu>), views::gpu),
    view(
        "/v1/incidents",
        "Incidents, the newest first.",
        &[
            Field::optional("state", Kind::Choice(STATES), "`open` where it is absent"),
            Field::optional("severity", Kind::Choices(SEVERITIES), "only these severities"),
            LIMIT,
            CURSOR,
        ],
        Shape::Page(of::<view::Incident>),
        views::incidents,
    ),
    view(
        "/v1/incidents/{id}",
        "An incident, by number or id.",
        &[],
        Shape::One(of::<view::Incident>),
        views::incident,
    ),
    get(
        "/v1/incidents/{id}/timeline",
        "The story of an incident in order; words of people are shown to operators and administrators.",
        &[LIMIT, CURSOR],
        Serves::Timeline,
    ),
    view(
        "/v1/alerts",
        "Alerts, the newest first.",
        &[
            Field::optional("state", Kind::Choice(STATES), "`open` where it is absent: not resolved"),
            LIMIT,
            CURSOR,
        ],
        Shape::Page(of::<view::Alert>),
        views::alerts,
    ),
    view("/v1/alerts/{id}", "An alert, by id.", &[], Shape::One(of::<view::Alert>), views::alert),
    view(
        "/v1/holds",
        "Holds in force, the oldest first.",
        &[Field::optional("node", Kind::Text(MAX_NAME), "only holds on this node, by name"), LIMIT, CURSOR],
        Shape::Page(of::<view::Hold>),
        views::holds,
    ),
    view("/v1/holds/{id}", "A hold, by id.", &[], Shape::One(of::<view::Hold>), views::hold),
    view(
        "/v1/jobs",
        "Jobs that hold nodes, and those that ended lately.",
        &[
            Field::optional("node", Kind::Text(MAX_NAME), "only jobs on this node, by name"),
            Field::optional("state", Kind::Choice(&["running", "all"]), "`running`: those that hold nodes"),
            LIMIT,
            CURSOR,
        ],
        Shape::Page(of::<view::Job>),
        views::jobs,
    ),
    view("/v1/jobs/{id}", "A job, by id.", &[], Shape::One(of::<view::Job>), views::job),
    view("/v1/spares", "Spares, by name.", &[LIMIT, CURSOR], Shape::Page(of::<view::Spare>), views::spares),
    view(
        "/v1/runbooks",
        "Runbooks in force, by id.",
        &[LIMIT, CURSOR],
        Shape::Page(of::<view::RunbookView>),
        views::runbooks,
    ),
    view("/v1/runbooks/{id}", "A runbook, by id.", &[], Shape::One(of::<view::RunbookView>), views::runbook),
    view(
        "/v1/executions",
        "Executions of runbooks, the newest first.",
        &[
            Field::optional("state", Kind::Choice(STATES), "`open` where it is absent: not ended"),
            Field::optional("incident", Kind::Text(MAX_NAME), "only those of this incident, by number"),
            LIMIT,
            CURSOR,
        ],
        Shape::Page(of::<view::Execution>),
        views::executions,
    ),
    view(
        "/v1/executions/{id}",
        "An execution, by id.",
        &[],
        Shape::One(of::<view::Execution>),
        views::execution,
    ),
    view("/v1/guard", "What the governor counts.", &[], Shape::One(of::<view::Guard>), views::guard),
    view(
        "/v1/marks",
        "What we have left in schedulers, and how `detach` takes each mark away.",
        &[LIMIT, CURSOR],
        Shape::Page(of::<view::Mark>),
        views::marks,
    ),
    view(
        "/v1/modes",
        "Modes that are set.",
        &[LIMIT, CURSOR],
        Shape::Page(of::<views::ModeView>),
        views::modes,
    ),
    get(
        "/v1/events",
        "Records as they become durable, as server-sent events: `id` is the sequence, `event` the type, `data` the canonical record. `reset` asks the client to list again.",
        &[
            Field::optional(
                "after",
                Kind::Number(-1, 1 << 53),
                "sequence that was seen last, such as `as_of` of a list; -1 for all; absent: from now on",
            ),
            Field::optional("type", Kind::Text(64), "beginning of the type: `incident.`"),
        ],
        Serves::Events,
    ),
    get(
        "/v1/audit-events",
        "Records of the journal that match.",
        &[
            Field::optional("type", Kind::Text(64), "beginning of the type: `incident.`"),
            Field::optional("subject", Kind::Text(MAX_NAME), "id or name of what it is about"),
            Field::optional("incident", Kind::Text(MAX_NAME), "number of the incident"),
            Field::optional("actor", Kind::Text(MAX_NAME), "who caused it: `local:admin`"),
            Field::optional("since", Kind::Time, "decided at or after"),
            Field::optional("until", Kind::Time, "decided before"),
            Field::optional(
                "order",
                Kind::Choice(&["newest", "oldest"]),
                "which come first; `newest` where absent",
            ),
            LIMIT,
            CURSOR,
        ],
        Serves::Audit,
    ),
    post(
        "/v1/nodes/{id}/actions/hold",
        "Let a node get no new work.",
        &[REASON, Field::optional("until", Kind::Time, "the hold ends by itself then")],
        verbs::node_hold,
    ),
    post("/v1/nodes/{id}/actions/drain", "Take a node out for planned work.", &[REASON], verbs::node_drain),
    post(
        "/v1/nodes/{id}/actions/resume",
        "End planned work: check the node and let it return.",
        &[REASON],
        verbs::node_resume,
    ),
    post(
        "/v1/nodes/{id}/actions/forget",
        "Expect no agent on a node any more, until one reports again.",
        &[REASON],
        verbs::node_forget,
    ),
    post("/v1/holds/{id}/actions/release", "Release a hold.", &[REASON], verbs::hold_release),
    post("/v1/incidents/{id}/actions/ack", "Take an incident.", &[REASON], verbs::incident_ack),
    post(
        "/v1/incidents/{id}/actions/note",
        "Note something; the reason is the text.",
        &[REASON],
        verbs::incident_note,
    ),
    post(
        "/v1/incidents/{id}/actions/severity",
        "Change the severity.",
        &[REASON, Field::required("severity", Kind::Choice(SEVERITIES), "the new one")],
        verbs::incident_severity,
    ),
    post("/v1/incidents/{id}/actions/resolve", "End an incident.", &[REASON], verbs::incident_resolve),
    post("/v1/jobs/{id}/actions/requeue", "Requeue a job.", &[REASON], verbs::job_requeue),
    post(
        "/v1/spares/actions/activate",
        "Let a spare serve in the slot of a node; the engine chooses which.",
        &[REASON, Field::required("node", Kind::Text(MAX_NAME), "name of the node whose slot needs it")],
        verbs::spare_activate,
    ),
    post("/v1/spares/{id}/actions/return", "Send a spare back.", &[REASON], verbs::spare_return),
    post(
        "/v1/executions",
        "Start a runbook for an incident.",
        &[
            REASON,
            Field::required("runbook", Kind::Text(MAX_NAME), "its id"),
            Field::required("incident", Kind::Text(MAX_NAME), "number of the incident"),
        ],
        verbs::run_start,
    ),
    post("/v1/executions/{id}/actions/approve", "Approve a plan.", &[REASON, PLAN], verbs::run_approve),
    post("/v1/executions/{id}/actions/reject", "Reject a plan.", &[REASON, PLAN], verbs::run_reject),
    post("/v1/executions/{id}/actions/pause", "Stop after the current step.", &[REASON], verbs::run_pause),
    post("/v1/executions/{id}/actions/resume", "Go on.", &[REASON], verbs::run_resume),
    post("/v1/executions/{id}/actions/retry", "Try the failed step again.", &[REASON], verbs::run_retry),
    post("/v1/executions/{id}/actions/skip", "Skip the failed step.", &[REASON], verbs::run_skip),
    post(
        "/v1/executions/{id}/actions/abort",
        "End it, undoing what can be undone.",
        &[REASON],
        verbs::run_abort,
    ),
    post(
        "/v1/executions/{id}/actions/answer",
        "Answer a human step.",
        &[
            REASON,
            Field::required("step", Kind::Text(MAX_NAME), "id of the step"),
            Field::required("answers", Kind::Answers, "answers to the step's questions"),
        ],
        verbs::run_answer,
    ),
    post("/v1/guard/actions/stop", "No new action from here on.", &[REASON], verbs::guard_stop),
    post("/v1/guard/actions/start", "Allow actions again.", &[REASON], verbs::guard_start),
    post("/v1/guard/actions/reset-breaker", "Reset the breaker.", &[REASON], verbs::breaker_reset),
    post(
        "/v1/modes",
        "Set a mode.",
        &[
            REASON,
            Field::required("scope", Kind::Text(MAX_NAME), "`site`, `scheduler:NAME` or `node:NAME`"),
            Field::required(
                "mode",
                Kind::Choice(&["observe", "advise", "act", "inherit"]),
                "`inherit` removes the setting of a scheduler or node",
            ),
        ],
        verbs::mode_set,
    ),
    post(
        "/v1/agent-tokens",
        "Make a token for enrolment; it is shown in this answer and never again.",
        &[
            REASON,
            Field::required("nodes", Kind::Names(4_096), "node names, or hostlists such as `gpu[001-008]`"),
            Field::optional("uses", Kind::Number(1, 65_536), "how often; once a node where it is absent"),
            Field::required("ttl_seconds", Kind::Number(1, 30 * 86_400), "how long it is valid"),
        ],
        verbs::agent_token_create,
    ),
    post(
        "/v1/actions/detach",
        "Take every mark of ours away from every scheduler.",
        &[REASON],
        verbs::detach,
    ),
];
