//! Commands that ask a running server: one table from noun and verb to the route, the columns and the text.

use provost_model::time::Span;
use serde_json::{Map, Value, json};

use super::{show, story};
use crate::cli::{
    Alert, Audit, Command, Detach, Events, Format, Gpu, Guard, Hold, Incident, Job, Mode, Node, Reason, Run,
    Runbook, Spare, Target, Watch,
};
use crate::client::{Client, Event, escape, with_query};
use crate::error::{Error, Exit};
use crate::output::{self, Column};

/// Carries the command out; gives the exit code.
pub fn run(client: &Client, command: Command, format: Format) -> Result<u8, Error> {
    let ask = Ask { client, format };
    match command {
        Command::Status(watch) => return ask.watching(watch, |ask| ask.status()),
        Command::Node(command) => ask.node(command)?,
        Command::Gpu(Gpu::List { node }) => {
            ask.list(&with_query("/v1/gpus", &[("node", node)]), show::GPUS)?
        }
        Command::Gpu(Gpu::Show(it)) => ask.show("/v1/gpus", &it.id, show::gpu)?,
        Command::Incident(command) => return ask.incident(command),
        Command::Alert(Alert::List { all, watch }) => {
            let path = with_query("/v1/alerts", &[state(all)]);
            return ask.watching(watch, |ask| ask.list(&path, show::ALERTS).map(|()| 0));
        }
        Command::Alert(Alert::Show(it)) => ask.show("/v1/alerts", &it.id, show::alert)?,
        Command::Hold(Hold::List { node }) => {
            ask.list(&with_query("/v1/holds", &[("node", node)]), show::HOLDS)?
        }
        Command::Hold(Hold::Show(it)) => ask.show("/v1/holds", &it.id, show::hold)?,
        Command::Hold(Hold::Release(target)) => ask.act("holds", "release", target)?,
        Command::Job(command) => return ask.job(command),
        Command::Spare(command) => ask.spare(command)?,
        Command::Runbook(Runbook::List) => ask.list("/v1/runbooks", show::RUNBOOKS)?,
        Command::Runbook(Runbook::Show(it)) => ask.show("/v1/runbooks", &it.id, show::runbook)?,
        Command::Run(command) => return ask.execution(command),
        Command::Guard(command) => ask.guard(command)?,
        Command::Mode(Mode::Show) => ask.list("/v1/modes", show::MODES)?,
        Command::Mode(Mode::Set { scope, mode, reason }) => {
            ask.post("/v1/modes", reason, json!({"scope": scope, "mode": mode}))?;
        }
        Command::Detach(detach) => ask.detach(&detach)?,
        Command::Events(events) => ask.events(events)?,
        Command::Audit(command) => ask.audit(command)?,
        // Those that need no server were taken before.
        Command::Up(_)
        | Command::Demo(_)
        | Command::Agent(_)
        | Command::Verify(_)
        | Command::Explain(_)
        | Command::Bmc(_)
        | Command::Config(_)
        | Command::Runbook(Runbook::Lint { .. } | Runbook::Schema)
        | Command::Corpus(_)
        | Command::Completion { .. } => {}
    }
    Ok(0)
}

/// Makes a token and prints it alone.
pub fn create_token(
    client: &Client,
    nodes: &str,
    uses: Option<u32>,
    ttl: Span,
    reason: &str,
) -> Result<(), Error> {
    let mut body = json!({"reason": reason, "nodes": [nodes], "ttl_seconds": ttl.0.as_secs()});
    if let Some(uses) = uses {
        body["uses"] = json!(uses);
    }
    let answer = client.post("/v1/agent-tokens", &body)?;
    output::print(&format!("{}\n", output::field(&answer, "token")))
}

struct Ask<'a> {
    client: &'a Client,
    format: Format,
}

impl Ask<'_> {
    fn list(&self, path: &str, columns: &[Column]) -> Result<(), Error> {
        output::list(&self.client.get(path)?, columns, self.format)
    }

    fn show(&self, path: &str, id: &str, people: fn(&Value) -> String) -> Result<(), Error> {
        let value = self.client.get(&format!("{path}/{}", escape(id)))?;
        output::one(&value, self.format, people)
    }

    fn act(&self, resource: &str, verb: &str, target: Target) -> Result<(), Error> {
        let path = format!("/v1/{resource}/{}/actions/{verb}", escape(&target.id));
        self.post(&path, target.reason, json!({}))
    }

    fn post(&self, path: &str, reason: Reason, mut body: Value) -> Result<(), Error> {
        body["reason"] = json!(reason.reason);
        let answer = self.client.post(path, &body)?;
        output::one(&answer, self.format, |answer| {
            let made = output::field(answer, "created");
            match (answer.get("seq").and_then(Value::as_u64), made.as_str()) {
                (None, _) => "nothing to do: it is so already\n".to_owned(),
                (Some(seq), "-") => format!("accepted, record {seq}\n"),
                (Some(seq), made) => format!("accepted, record {seq}: {made}\n"),
            }
        })
    }

    /// Prints once, or again whenever a record became durable.
    fn watching(&self, watch: Watch, print: impl Fn(&Self) -> Result<u8, Error>) -> Result<u8, Error> {
        if !watch.watch {
            return print(self);
        }
        output::clear();
        print(self)?;
        // Records come in batches; the picture is drawn once for those that are already here.
        let mut shown = String::new();
        self.client.follow("/v1/events", &mut |event: Event| {
            if event.id != shown {
                shown.clone_from(&event.id);
                output::clear();
                print(self)?;
            }
            Ok(true)
        })?;
        Ok(0)
    }

    fn status(&self) -> Result<u8, Error> {
        let status = self.client.get("/v1/status")?;
        output::one(&status, self.format, show::status)?;
        Ok(match status.get("verdict").and_then(Value::as_str) {
            Some("ok") => 0,
            Some("critical") => 21,
            _ => 20,
        })
    }

    fn node(&self, command: Node) -> Result<(), Error> {
        match command {
            Node::List { phase, watch } => {
                let path = with_query("/v1/nodes", &[("phase", phase)]);
                self.watching(watch, |ask| ask.list(&path, show::NODES).map(|()| 0)).map(drop)
            }
            Node::Show(it) => self.show("/v1/nodes", &it.id, show::node),
            Node::Hold { target, until } => {
                let path = format!("/v1/nodes/{}/actions/hold", escape(&target.id));
                let body = until.map_or(json!({}), |until| json!({"until": until}));
                self.post(&path, target.reason, body)
            }
            Node::Drain(target) => self.act("nodes", "drain", target),
            Node::Resume(target) => self.act("nodes", "resume", target),
            Node::Forget(target) => self.act("nodes", "forget", target),
        }
    }

    fn incident(&self, command: Incident) -> Result<u8, Error> {
        match command {
            Incident::List { all, severity, watch } => {
                let path = with_query("/v1/incidents", &[state(all), ("severity", severity)]);
                return self.watching(watch, |ask| ask.list(&path, show::INCIDENTS).map(|()| 0));
            }
            Incident::Show(it) => story::print(self.client, &it.id, self.format)?,
            Incident::Ack(target) => self.act("incidents", "ack", target)?,
            Incident::Note(target) => self.act("incidents", "note", target)?,
            Incident::Severity { id, severity, reason } => {
                let path = format!("/v1/incidents/{}/actions/severity", escape(&id));
                self.post(&path, reason, json!({"severity": severity}))?;
            }
            Incident::Resolve(target) => self.act("incidents", "resolve", target)?,
        }
        Ok(0)
    }

    fn job(&self, command: Job) -> Result<u8, Error> {
        match command {
            Job::List { node, all, watch } => {
                let wanted = if all { "all" } else { "running" };
                let path = with_query("/v1/jobs", &[("node", node), ("state", Some(wanted.to_owned()))]);
                return self.watching(watch, |ask| ask.list(&path, show::JOBS).map(|()| 0));
            }
            Job::Show(it) => self.show("/v1/jobs", &it.id, show::job)?,
            Job::Requeue(target) => self.act("jobs", "requeue", target)?,
        }
        Ok(0)
    }

    fn spare(&self, command: Spare) -> Result<(), Error> {
        match command {
            Spare::List => self.list("/v1/spares", show::SPARES),
            Spare::Activate { node, reason } => {
                self.post("/v1/spares/actions/activate", reason, json!({"node": node}))
            }
            Spare::Return(target) => self.act("spares", "return", target),
        }
    }

    fn execution(&self, command: Run) -> Result<u8, Error> {
        let act = |verb, target| self.act("executions", verb, target);
        match command {
            Run::List { all, incident, watch } => {
                let path = with_query("/v1/executions", &[state(all), ("incident", incident)]);
                return self.watching(watch, |ask| ask.list(&path, show::EXECUTIONS).map(|()| 0));
            }
            Run::Show { which: it, watch } => {
                return self
                    .watching(watch, |ask| ask.show("/v1/executions", &it.id, show::execution).map(|()| 0));
            }
            Run::Start { runbook, incident, reason } => {
                self.post("/v1/executions", reason, json!({"runbook": runbook, "incident": incident}))?;
            }
            Run::Approve { target, plan_digest } => self.decide("approve", target, &plan_digest)?,
            Run::Reject { target, plan_digest } => self.decide("reject", target, &plan_digest)?,
            Run::Answer { target, step, answers } => self.answer(target, step, &answers)?,
            Run::Pause(target) => act("pause", target)?,
            Run::Resume(target) => act("resume", target)?,
            Run::Retry(target) => act("retry", target)?,
            Run::Skip(target) => act("skip", target)?,
            Run::Abort(target) => act("abort", target)?,
        }
        Ok(0)
    }

    fn decide(&self, verb: &str, target: Target, plan: &str) -> Result<(), Error> {
        let path = format!("/v1/executions/{}/actions/{verb}", escape(&target.id));
        self.post(&path, target.reason, json!({"plan": plan}))
    }

    fn answer(&self, target: Target, step: Option<String>, answers: &[String]) -> Result<(), Error> {
        let path = format!("/v1/executions/{}", escape(&target.id));
        let step = match step {
            Some(step) => step,
            None => waiting_step(&self.client.get(&path)?)?,
        };
        let mut given = Map::new();
        for answer in answers {
            let (field, value) = answer.split_once('=').ok_or_else(|| {
                Error::new(Exit::Usage, format!("`{answer}` is no answer")).remedy("write FIELD=VALUE")
            })?;
            given.insert(field.to_owned(), json!(value));
        }
        self.post(&format!("{path}/actions/answer"), target.reason, json!({"step": step, "answers": given}))
    }

    fn guard(&self, command: Guard) -> Result<(), Error> {
        match command {
            Guard::Status => output::one(&self.client.get("/v1/guard")?, self.format, show::guard),
            Guard::Stop(reason) => self.post("/v1/guard/actions/stop", reason, json!({})),
            Guard::Start(reason) => self.post("/v1/guard/actions/start", reason, json!({})),
            Guard::Reset(reason) => self.post("/v1/guard/actions/reset-breaker", reason, json!({})),
        }
    }

    fn detach(&self, detach: &Detach) -> Result<(), Error> {
        if detach.dry_run {
            eprintln!("without --dry-run each of these is done and read back:");
            return self.list("/v1/marks", show::MARKS);
        }
        self.post(
            "/v1/actions/detach",
            Reason { reason: detach.reason.clone().unwrap_or_default() },
            json!({}),
        )
    }

    fn events(&self, events: Events) -> Result<(), Error> {
        let after = events.after.map(|after| after.to_string());
        let path = with_query("/v1/events", &[("after", after), ("type", events.kind)]);
        let mut left = events.limit;
        let format = self.format;
        self.client.follow(&path, &mut |event| {
            if left == Some(0) {
                return Ok(false);
            }
            show::event(&event, format)?;
            left = left.map(|left| left - 1);
            Ok(left != Some(0))
        })
    }

    fn audit(&self, command: Audit) -> Result<(), Error> {
        let Audit::Search { kind, subject, incident, actor, since, until, oldest, limit } = command else {
            return Ok(());
        };
        let path = with_query(
            "/v1/audit-events",
            &[
                ("type", kind),
                ("subject", subject),
                ("incident", incident),
                ("actor", actor),
                ("since", since.map(|at| at.to_string())),
                ("until", until.map(|at| at.to_string())),
                ("order", oldest.then(|| "oldest".to_owned())),
                ("limit", Some(limit.to_string())),
            ],
        );
        self.list(&path, show::RECORDS)
    }
}

/// `state=all`, or nothing.
fn state(all: bool) -> (&'static str, Option<String>) {
    ("state", all.then(|| "all".to_owned()))
}

/// The step that waits for a person.
fn waiting_step(execution: &Value) -> Result<String, Error> {
    let steps = execution.get("steps").and_then(Value::as_array);
    let waiting = steps.into_iter().flatten().find(|step| {
        step.get("use").and_then(Value::as_str) == Some("human")
            && step.get("state").and_then(Value::as_str) == Some("waiting")
    });
    waiting.map(|step| output::field(step, "id")).ok_or_else(|| {
        Error::new(Exit::Conflict, "no step waits for an answer").remedy("see `provost run show`")
    })
}
