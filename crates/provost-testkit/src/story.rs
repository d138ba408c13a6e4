//! The parts of an incident's story that tests wait for, in the words of the API.

use std::time::Duration;

use serde_json::Value;

use crate::site::Site;
use crate::testbed::Testbed;
use crate::wait::wait_until;

/// What happens by itself at once has happened within this time.
const SOON: Duration = Duration::from_secs(10);

impl Site {
    /// Submits the job that loses its GPU: all eight of gpu003, and it may be requeued. Waits until it runs and the
    /// controller knows it; gives its id.
    ///
    /// # Panics
    /// Where it runs elsewhere, or is not known in time.
    #[track_caller]
    pub fn job_on_gpu003(&self, testbed: &Testbed) -> u32 {
        self.job_as(testbed, "--requeue")
    }

    /// As [`Site::job_on_gpu003`], with `--requeue` or `--no-requeue`.
    ///
    /// # Panics
    /// Where it runs elsewhere, or is not known in time.
    #[track_caller]
    pub fn job_as(&self, testbed: &Testbed, requeue: &str) -> u32 {
        let job = testbed.submit(&[
            "-p",
            "batch",
            "--gres=gpu:8",
            requeue,
            "-x",
            "gpu001,gpu002",
            "--wrap",
            "sleep 600",
        ]);
        assert_eq!(testbed.wait_running(job, SOON), "gpu003");
        wait_until("the controller knows the job", SOON, || {
            let jobs = self.items(&["job", "list", "--node", "gpu003"]);
            if jobs.is_empty() { Err("no job".to_owned()) } else { Ok(()) }
        });
        job
    }

    /// A node.
    ///
    /// # Panics
    /// Where the command fails.
    #[track_caller]
    pub fn node(&self, name: &str) -> Value {
        self.json(&["node", "show", name])
    }

    /// Waits until a node is in a phase.
    ///
    /// # Panics
    /// Where it is not after `limit`.
    #[track_caller]
    pub fn wait_phase(&self, name: &str, phase: &str, limit: Duration) -> Value {
        wait_until(&format!("{name} is {phase}"), limit, || {
            let node = self.node(name);
            if node["phase"] == phase { Ok(node) } else { Err(node["phase"].to_string()) }
        })
    }

    /// Owners of a node's holds, sorted.
    ///
    /// # Panics
    /// Where the command fails.
    #[track_caller]
    pub fn holders(&self, name: &str) -> Vec<String> {
        let holds = self.items(&["hold", "list", "--node", name]);
        let mut owners: Vec<String> =
            holds.iter().filter_map(|hold| hold["owner"].as_str()).map(str::to_owned).collect();
        owners.sort();
        owners
    }

    /// Open incidents that are about a node.
    ///
    /// # Panics
    /// Where the command fails.
    #[track_caller]
    pub fn open_incidents(&self, node: &str) -> Vec<Value> {
        let mut incidents = self.items(&["incident", "list"]);
        incidents.retain(|incident| {
            let over = matches!(incident["state"].as_str(), Some("resolved" | "closed" | "merged"));
            !over
                && incident["subjects"]
                    .as_array()
                    .is_some_and(|subjects| subjects.iter().any(|s| s["node"] == node))
        });
        incidents
    }

    /// Waits for the one open incident about a node; gives its number.
    ///
    /// # Panics
    /// Where there is none in time, or more than one.
    #[track_caller]
    pub fn wait_incident(&self, node: &str, limit: Duration) -> String {
        let incident = wait_until(&format!("an incident of {node}"), limit, || {
            self.open_incidents(node).pop().ok_or_else(|| "none".to_owned())
        });
        assert_eq!(self.open_incidents(node).len(), 1, "one cause is one incident");
        incident["number"].as_str().expect("an incident has a number").to_owned()
    }

    /// An incident with its story.
    ///
    /// # Panics
    /// Where there is none.
    #[track_caller]
    pub fn incident(&self, number: &str) -> Value {
        self.json(&["incident", "show", number])
    }

    /// Waits until the incident's runbook waits for a person; gives the execution.
    ///
    /// # Panics
    /// Where it does not in time.
    #[track_caller]
    pub fn wait_human_step(&self, number: &str, limit: Duration) -> String {
        wait_until(&format!("the human step of {number}"), limit, || {
            let runs = self.items(&["run", "list", "--incident", number]);
            let waiting = runs.iter().find(|run| run["state"] == "awaiting_human");
            let id = waiting.and_then(|run| run["id"].as_str()).map(str::to_owned);
            id.ok_or_else(|| runs.iter().map(short).collect())
        })
    }

    /// The spare that serves in batch, once one does.
    ///
    /// # Panics
    /// Where none does in time.
    #[track_caller]
    pub fn wait_spare(testbed: &Testbed) -> String {
        wait_until("a spare in batch", SOON, || {
            let nodes = testbed.partition("batch");
            nodes.iter().find(|node| node.starts_with("spare")).cloned().ok_or_else(|| nodes.join(","))
        })
    }

    /// Waits until no spare serves in production.
    ///
    /// # Panics
    /// Where one does after `limit`.
    #[track_caller]
    pub fn wait_spares_home(testbed: &Testbed, limit: Duration) {
        wait_until("the spares are home", limit, || {
            let of = |partition| testbed.partition(partition);
            let serving = ["serving", "interactive", "batch", "scavenger"].map(of).concat();
            let away: Vec<String> = serving.into_iter().filter(|node| node.starts_with("spare")).collect();
            if away.is_empty() && of("spare").len() == 2 { Ok(()) } else { Err(away.join(",")) }
        });
    }

    /// Answers the human step as a technician does.
    ///
    /// # Panics
    /// Where it is refused.
    #[track_caller]
    pub fn answer(&self, execution: &str) {
        self.provost(&["run", "answer", execution, "outcome=reseated", "-m", "reseated"]).ok();
    }

    /// Whether a runbook of the incident waits for a person.
    ///
    /// # Panics
    /// Where the command fails.
    #[track_caller]
    pub fn asks_a_person(&self, number: &str) -> bool {
        let runs = self.items(&["run", "list", "--incident", number]);
        runs.iter().any(|run| run["state"] == "awaiting_human")
    }

    /// Waits until an incident is resolved; gives it.
    ///
    /// # Panics
    /// Where it is not in time.
    #[track_caller]
    pub fn wait_resolved(&self, number: &str, limit: Duration) -> Value {
        wait_until(&format!("{number} is resolved"), limit, || {
            let incident = self.incident(number);
            if incident["resolved_at"].is_null() {
                let runs = self.items(&["run", "list", "--incident", number, "--all"]);
                Err(incident["state"].to_string() + &runs.iter().map(short).collect::<String>())
            } else {
                Ok(incident)
            }
        })
    }

    /// Waits until a node has exactly these holders.
    ///
    /// # Panics
    /// Where it has others after `limit`.
    #[track_caller]
    pub fn wait_holders(&self, node: &str, limit: Duration, wanted: &[&str]) {
        wait_until(&format!("{node} is held by {wanted:?}"), limit, || {
            let holders = self.holders(node);
            if holders == wanted { Ok(()) } else { Err(format!("{holders:?}")) }
        });
    }

    /// The line of an incident's story that holds all these words; its place in the order.
    ///
    /// # Panics
    /// Where there is none.
    #[track_caller]
    pub fn told(incident: &Value, words: &[&str]) -> usize {
        let lines = incident["timeline"].as_array().expect("an incident has a story");
        let text = |line: &Value| line["text"].as_str().unwrap_or_default().to_owned();
        lines.iter().position(|line| words.iter().all(|word| text(line).contains(word))).unwrap_or_else(
            || {
                let all: Vec<String> = lines.iter().map(text).collect();
                panic!("no line with {words:?} in:\n{}", all.join("\n"))
            },
        )
    }
}

/// An execution in one line.
fn short(run: &Value) -> String {
    let steps = run["steps"].as_array().into_iter().flatten();
    let steps: Vec<String> = steps.map(|step| format!("{}={}", step["id"], step["state"])).collect();
    format!("\n{} {} {}: {}", run["runbook"], run["state"], run["why"], steps.join(" "))
}
