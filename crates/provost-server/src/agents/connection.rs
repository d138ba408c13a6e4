//! The connection of one node, from its hello to its end.

use std::sync::Arc;
use std::time::Duration;

use provost_controller::Message;
use provost_model::body::{Source, SourceState};
use provost_model::effect::Effect;
use provost_model::input::{AgentReport, Input};
use provost_model::signal::Signal;
use provost_wire::{Ack, Decoder, EnrolReply, Hello, OrderResult, ToAgent, ToServer, Welcome, encode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::server::TlsStream;

use super::enrolment::{certify, refuse};
use super::{Agents, lock};
use crate::{clock, inbox};

/// An agent that says nothing for this long is gone; it sends heartbeats.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a kernel line, and of any other text of a signal.
const MAX_LINE: usize = 1_024;
const MAX_TEXT: usize = 64;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The network.
    #[error("the connection broke")]
    Io(#[source] std::io::Error),
    /// The peer does not speak the protocol.
    #[error("the agent sent what is no frame")]
    Wire(#[from] provost_wire::WireError),
    /// Nothing came.
    #[error("the agent said nothing in time")]
    Silent,
}

/// What is known about the node of this connection.
struct Peer<'a> {
    agents: &'a Agents,
    node: String,
    /// Drawn by the agent at its start; batches are numbered within it.
    instance: u64,
    frames: mpsc::Sender<ToAgent>,
    /// The kernel log as it was told last.
    kernel_log: SourceState,
}

/// Serves the agent of `node`, which its certificate proves.
pub(super) async fn serve(
    agents: &Agents,
    mut stream: TlsStream<TcpStream>,
    node: String,
) -> Result<(), Error> {
    let mut decoder = Decoder::new();
    let first = tokio::time::timeout(PATIENCE, next_message(&mut stream, &mut decoder))
        .await
        .map_err(|_| Error::Silent)??;
    let hello = match first {
        Some(ToServer::Hello(hello)) if hello.node == node => hello,
        Some(ToServer::Hello(_)) => {
            let refused = refuse(
                "node_mismatch",
                "the certificate is another node's; remove its state_dir and enrol again",
            );
            return send(&mut stream, &refused).await;
        }
        _ => return send(&mut stream, &refuse("protocol", "say hello first")).await,
    };
    let (number, waiting, frames) = agents.connect(&node, welcome(agents));
    let (reader, writer) = split(stream);
    let kernel_log = agents.kernel_log(&node);
    let mut peer = Peer { agents, node: node.clone(), instance: hello.instance, frames, kernel_log };
    peer.report(hello);
    let ended = tokio::select! {
        ended = peer.read(reader, decoder) => ended,
        ended = write(writer, waiting) => ended,
    };
    agents.disconnect(&node, number);
    ended
}

/// The first frame of a connection.
fn welcome(agents: &Agents) -> ToAgent {
    let (epoch, heartbeat) = {
        let state = agents.handle.state();
        (state.epoch, state.config.timers.heartbeat.0)
    };
    let heartbeat_ms = u64::try_from(heartbeat.as_millis()).unwrap_or(u64::MAX);
    ToAgent::Welcome(Welcome { epoch, server_time: clock::now(), heartbeat_ms })
}

impl Peer<'_> {
    /// Tells the agent what it has to know, and the engine what the agent said of its node.
    fn report(&mut self, hello: Hello) {
        self.agents.tell_standings();
        self.agents.heard(&self.node, clock::now());
        let report = AgentReport {
            node: self.node.clone(),
            boot_id: hello.boot_id,
            actions: hello.actions,
            gpus: hello.gpus,
            version: hello.version,
        };
        inbox::put(&self.agents.handle, Input::AgentReport(Box::new(report)));
    }

    /// Takes frames until the agent ends, or says nothing for too long.
    async fn read(
        &mut self,
        mut reader: impl AsyncRead + Unpin,
        mut decoder: Decoder<ToServer>,
    ) -> Result<(), Error> {
        loop {
            let next = tokio::time::timeout(PATIENCE, next_message(&mut reader, &mut decoder));
            let Some(message) = next.await.map_err(|_| Error::Silent)?? else { return Ok(()) };
            self.agents.heard(&self.node, clock::now());
            self.take(message).await;
        }
    }

    async fn take(&mut self, message: ToServer) {
        match message {
            ToServer::Signals(signals) => {
                if signals.dropped > 0 {
                    tracing::warn!(node = %self.node, dropped = signals.dropped, "the agent had no room for signals");
                    self.kernel_log(SourceState::Blind);
                }
                self.take_signals(signals.batch, signals.signals).await;
            }
            ToServer::Heartbeat(heartbeat) => self.kernel_log(heartbeat.kernel_log),
            ToServer::OrderResult(result) => self.take_result(result),
            ToServer::Unparsed(unparsed) => {
                tracing::warn!(node = %self.node, lines = unparsed.count, lost = unparsed.lost, "kernel lines were not understood");
                if unparsed.lost > 0 {
                    self.kernel_log(SourceState::Blind);
                }
            }
            ToServer::RenewRequest(request) => {
                let answer = match certify(self.agents, &self.node, &request.csr_pem, None).await {
                    Ok(certificate) => ToAgent::EnrolReply(EnrolReply {
                        cert_pem: certificate.pem,
                        ca_pem: self.agents.authority.ca_pem.clone(),
                        expires_at: certificate.expires_at,
                    }),
                    Err(refused) => ToAgent::Refused(refused),
                };
                self.send(answer);
            }
            ToServer::Hello(_) | ToServer::EnrolRequest(_) => {
                self.send(refuse("protocol", "this connection is greeted already"));
            }
        }
    }

    /// Puts signals into the inbox; waits while it is full, so that the agent keeps the rest.
    async fn take_signals(&self, batch: u64, mut signals: Vec<Signal>) {
        for signal in &mut signals {
            // A compromised agent can lie about its own node and nothing else.
            signal.node.clone_from(&self.node);
            bound(signal);
        }
        let (node, instance, frames) = (self.node.clone(), self.instance, self.frames.clone());
        if self.agents.is_durable(&node, instance, batch) {
            self.send(ToAgent::Ack(Ack { batch }));
            return;
        }
        let durable = Arc::clone(&self.agents.durable);
        let ack = Box::new(move || {
            lock(&durable).insert(node, (instance, batch));
            // Where the agent is gone it sends the batch again, and is told then.
            drop(frames.try_send(ToAgent::Ack(Ack { batch })));
        });
        inbox::put_waiting(&self.agents.handle, Message::Signals { signals, ack }).await;
    }

    /// Takes what became of an order of this node. A result for anything else, another node's order or an effect
    /// in a scheduler, is not this agent's to tell.
    fn take_result(&self, result: OrderResult) {
        let own = {
            let state = self.agents.handle.state();
            let open = state.effects.get(&result.intent);
            open.map(|open| is_order_for(&self.node, &open.requested.effect))
        };
        match own {
            Some(true) => {
                let input = Input::EffectResult { intent: result.intent, result: result.result };
                inbox::put(&self.agents.handle, input);
            }
            Some(false) => {
                tracing::warn!(node = %self.node, intent = result.intent, "an agent told a result that is not its own");
            }
            // Late, or told twice.
            None => {}
        }
    }

    /// Tells the engine where the kernel log went blind, or can be read again.
    fn kernel_log(&mut self, state: SourceState) {
        if self.kernel_log != state {
            self.kernel_log = state;
            let source = Source::KernelLog(self.node.clone());
            inbox::put(&self.agents.handle, Input::Source { source, state });
        }
    }

    fn send(&self, frame: ToAgent) {
        if self.frames.try_send(frame).is_err() {
            tracing::warn!(node = %self.node, "the agent does not take its frames");
        }
    }
}

/// The effect is an order for this node's agent.
fn is_order_for(node: &str, effect: &Effect) -> bool {
    matches!(effect, Effect::AgentAction { node: ordered, .. } if ordered == node)
}

/// Cuts the texts of a signal to what the model allows. An agent that sends more must not fill the inbox or the
/// emergency journal, which belong to every node.
fn bound(signal: &mut Signal) {
    let cut = |text: &mut String, max: usize| text.truncate(text.floor_char_boundary(max));
    cut(&mut signal.line, MAX_LINE);
    for text in [&mut signal.fields.unit, &mut signal.boot_id].into_iter().flatten() {
        cut(text, MAX_TEXT);
    }
}

/// Writes what waits for the agent, until a newer connection of the same node takes over.
async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut waiting: mpsc::Receiver<ToAgent>,
) -> Result<(), Error> {
    while let Some(frame) = waiting.recv().await {
        send(&mut writer, &frame).await?;
    }
    Ok(())
}

/// Sends one frame.
pub(super) async fn send(writer: &mut (impl AsyncWrite + Unpin), frame: &ToAgent) -> Result<(), Error> {
    writer.write_all(&encode(frame)?).await.map_err(Error::Io)?;
    writer.flush().await.map_err(Error::Io)
}

/// The next frame; none where the peer has ended.
pub(super) async fn next_message(
    reader: &mut (impl AsyncRead + Unpin),
    decoder: &mut Decoder<ToServer>,
) -> Result<Option<ToServer>, Error> {
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some(message) = decoder.next_message()? {
            return Ok(Some(message));
        }
        match reader.read(&mut chunk).await.map_err(Error::Io)? {
            0 => return Ok(None),
            n => decoder.push(&chunk[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_answers_for_its_own_orders_only() {
        let check = |effect: Effect, expected: bool| {
            assert_eq!(is_order_for("gpu001", &effect), expected, "{effect:?}");
        };
        let order = |node: &str| Effect::AgentAction {
            node: node.to_owned(),
            action: "validate".to_owned(),
            pci: None,
        };
        let (cluster, node) = ("main".to_owned(), "gpu001".to_owned());
        check(order("gpu001"), true);
        check(order("gpu002"), false);
        check(Effect::SchedulerRelease { cluster: cluster.clone(), node }, false);
        check(Effect::NotesOff { cluster }, false);
    }

    #[test]
    fn texts_of_a_signal_are_cut_at_a_character() {
        let text = r#"{"node":"gpu001","kind":"xid","code":79,"pci":null,"impact":"critical","fields":{},
            "at":"2026-11-30T22:00:00.000Z","boot_id":null,"sequence":null,"historic":false,"trust":"kernel","line":""}"#;
        let mut signal: Signal = serde_json::from_str(text).unwrap();
        signal.line = format!("x{}", "é".repeat(5_000));
        signal.boot_id = Some("b".repeat(5_000));
        bound(&mut signal);
        assert_eq!(signal.line.len(), 1_023);
        assert_eq!(signal.boot_id.unwrap().len(), 64);
    }
}
