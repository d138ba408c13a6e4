//! Counts for Prometheus. No names, no ids: whoever can reach the port may read them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use provost_engine::State;
use provost_model::policy::Mode;

use crate::serve::Shared;

/// Requests since the start.
#[derive(Default)]
pub(crate) struct Traffic {
    /// By the first digit of the status.
    by_class: [AtomicU64; 6],
    micros: AtomicU64,
}

impl Traffic {
    /// Counts an answer.
    pub(crate) fn count(&self, status: StatusCode, took: Duration) {
        if let Some(counter) = self.by_class.get(usize::from(status.as_u16() / 100)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// `/metrics`.
pub(crate) fn respond(shared: &Shared) -> Response {
    let mut page = Page::default();
    controller(shared, &mut page);
    traffic(shared, &mut page);
    {
        let state = shared.api.handle.state();
        fleet(&state, &mut page);
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.text).into_response()
}

fn controller(shared: &Shared, page: &mut Page) {
    let handle = &shared.api.handle;
    let counters = handle.counters();
    let version = [("version", shared.api.backend.version())];
    page.family("provost_build_info", "gauge", "Version of the program.");
    page.sample("provost_build_info", &version, 1);
    for (name, about, counter) in [
        ("provost_inputs_total", "Inputs taken through the engine.", &counters.inputs),
        ("provost_signals_total", "Signals taken, repeats included.", &counters.signals),
        ("provost_records_total", "Records made durable.", &counters.records),
        ("provost_commits_total", "Appends to the journal.", &counters.commits),
        (
            "provost_signals_not_recorded_total",
            "Signals that came while the journal could not be written.",
            &counters.signals_not_recorded,
        ),
        ("provost_append_failures_total", "Appends that failed.", &counters.append_failures),
    ] {
        page.single(name, "counter", about, counter.load(Ordering::Relaxed));
    }
    let available = u64::from(handle.health().journal_available());
    page.single("provost_journal_available", "gauge", "Whether the journal can be written.", available);
}

fn traffic(shared: &Shared, page: &mut Page) {
    page.family("provost_http_requests_total", "counter", "Answers of the interface by class of status.");
    for (class, counter) in shared.traffic.by_class.iter().enumerate().skip(2) {
        let class = format!("{class}xx");
        page.sample("provost_http_requests_total", &[("status", &class)], counter.load(Ordering::Relaxed));
    }
    let micros = shared.traffic.micros.load(Ordering::Relaxed);
    page.family("provost_http_busy_seconds", "counter", "Time until answers began, summed up.");
    page.line(&format!("provost_http_busy_seconds {}.{:06}", micros / 1_000_000, micros % 1_000_000));
    page.single(
        "provost_event_streams",
        "gauge",
        "Streams that are followed.",
        shared.streams.count() as u64,
    );
}

fn fleet(state: &State, page: &mut Page) {
    page.single("provost_epoch", "gauge", "Epoch of the controller.", state.epoch);
    page.single("provost_journal_next_sequence", "gauge", "Sequence that the next record gets.", state.seq);
    let mut phases = BTreeMap::new();
    for node in state.nodes.values() {
        *phases.entry(node.phase.name()).or_insert(0_u64) += 1;
    }
    page.grouped("provost_nodes", "Nodes by phase.", "phase", &phases);
    let mut severities = BTreeMap::from([("sev1", 0), ("sev2", 0), ("sev3", 0), ("sev4", 0)]);
    for incident in state.incidents.values().filter(|incident| incident.state.is_open()) {
        let severity = incident.severity.to_string().to_ascii_lowercase();
        if let Some(count) = severities.get_mut(severity.as_str()) {
            *count += 1;
        }
    }
    page.grouped("provost_incidents_open", "Open incidents by severity.", "severity", &severities);
    let unknown = state.effects.values().filter(|effect| effect.unknown).count() as u64;
    let effects = BTreeMap::from([("asked", state.effects.len() as u64 - unknown), ("unknown", unknown)]);
    page.grouped("provost_effects_outstanding", "Effects without a result.", "state", &effects);
    page.single("provost_holds", "gauge", "Holds in force.", state.holds.len() as u64);
    page.single("provost_guard_stopped", "gauge", "A person said stop.", u64::from(state.guard.stopped));
    let tripped = u64::from(state.guard.breaker_tripped);
    page.single("provost_breaker_tripped", "gauge", "Too much was unavailable.", tripped);
    let modes = [Mode::Observe, Mode::Advise, Mode::Act];
    let modes = modes.map(|mode| (mode.name(), u64::from(mode == state.config.mode)));
    page.grouped("provost_mode", "Mode of the site: 1 where it is this one.", "mode", &BTreeMap::from(modes));
}

/// A page in the text format of Prometheus.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn family(&mut self, name: &str, kind: &str, about: &str) {
        self.line(&format!("# HELP {name} {about}"));
        self.line(&format!("# TYPE {name} {kind}"));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let mut line = name.to_owned();
        for (at, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let open = if at == 0 { '{' } else { ',' };
            line.push_str(&format!("{open}{label}=\"{text}\""));
        }
        if !labels.is_empty() {
            line.push('}');
        }
        self.line(&format!("{line} {value}"));
    }

    fn single(&mut self, name: &str, kind: &str, about: &str, value: u64) {
        self.family(name, kind, about);
        self.sample(name, &[], value);
    }

    fn grouped(&mut self, name: &str, about: &str, label: &str, groups: &BTreeMap<&str, u64>) {
        self.family(name, "gauge", about);
        for (group, count) in groups {
            self.sample(name, &[(label, group)], *count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.sample("a_total", &[("x", "q\"\\\n"), ("y", "1")], 3);
        assert_eq!(page.text, "a_total{x=\"q\\\"\\\\\\n\",y=\"1\"} 3\n");
    }

    #[test]
    fn answers_are_counted_by_class() {
        let traffic = Traffic::default();
        for status in [200, 204, 404, 503] {
            let status = StatusCode::from_u16(status).unwrap();
            traffic.count(status, Duration::from_millis(1));
        }
        let counts = traffic.by_class.each_ref().map(|counter| counter.load(Ordering::Relaxed));
        assert_eq!(counts, [0, 0, 2, 0, 1, 1]);
        assert_eq!(traffic.micros.load(Ordering::Relaxed), 4_000);
    }
}
