//! A request that is sent twice is carried out once: the first answer is kept and given again.
//!
//! What is kept lives in memory and is bounded; after a restart the journal still shows what a request did, by
//! its `corr.request`.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use crate::command::Answered;
use crate::problem::{Kind, Problem};

/// Answers that are kept; the oldest goes first.
const MAX_REQUESTS: usize = 10_000;

/// A request: who sent it, with which key.
type Key = (String, String);

/// Answers by request.
#[derive(Default)]
pub(crate) struct Requests {
    inner: Mutex<Inner>,
    hasher: RandomState,
}

#[derive(Default)]
struct Inner {
    by_key: HashMap<Key, Entry>,
    /// In the order of their first arrival.
    order: VecDeque<Key>,
}

struct Entry {
    /// Of path and body.
    fingerprint: u64,
    /// None while the request is being answered.
    answer: Option<Answered>,
}

/// What is to be done with a request.
pub(crate) enum Begun {
    /// It is new.
    New(Ticket),
    /// It was answered before.
    Replay(Answered),
}

/// The right to answer a request. Dropped without an answer, the request counts as never sent.
pub(crate) struct Ticket {
    requests: Arc<Requests>,
    key: Option<Key>,
}

impl Requests {
    /// Looks at a request of `actor` with the idempotency key `key`.
    pub(crate) fn begin(
        self: &Arc<Requests>,
        actor: &str,
        key: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Begun, Problem> {
        let fingerprint = self.hasher.hash_one((path, body));
        let key = (actor.to_owned(), key.to_owned());
        let mut inner = self.lock();
        match inner.by_key.get(&key) {
            Some(entry) if entry.fingerprint != fingerprint => {
                Err(Problem::new(Kind::KeyReused, "path or body differ from those of the first request"))
            }
            Some(Entry { answer: Some(answer), .. }) => Ok(Begun::Replay(answer.clone())),
            Some(_) => {
                Err(Problem::new(Kind::InFlight, "the first request has no answer yet").retry_after(1))
            }
            None => {
                inner.insert(key.clone(), Entry { fingerprint, answer: None });
                Ok(Begun::New(Ticket { requests: Arc::clone(self), key: Some(key) }))
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // Nothing in here is changed in more than one step that could be cut short.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn insert(&mut self, key: Key, entry: Entry) {
        self.by_key.insert(key.clone(), entry);
        self.order.push_back(key);
        while self.order.len() > MAX_REQUESTS {
            if let Some(oldest) = self.order.pop_front() {
                self.by_key.remove(&oldest);
            }
        }
    }
}

impl Ticket {
    /// Keeps the answer for the next time.
    pub(crate) fn answer(mut self, answer: Answered) {
        if let Some(key) = self.key.take()
            && let Some(entry) = self.requests.lock().by_key.get_mut(&key)
        {
            entry.answer = Some(answer);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let mut inner = self.requests.lock();
            inner.by_key.remove(&key);
            inner.order.retain(|other| *other != key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(seq: u64) -> Answered {
        Ok(crate::command::Done { seq: Some(seq), created: Vec::new() })
    }

    fn word(begun: Result<Begun, Problem>) -> String {
        match begun {
            Ok(Begun::New(_)) => "new".to_owned(),
            Ok(Begun::Replay(Ok(done))) => format!("replay {:?}", done.seq.unwrap()),
            Ok(Begun::Replay(Err(problem))) => format!("replay {:?}", problem.kind),
            Err(problem) => format!("{:?}", problem.kind),
        }
    }

    #[test]
    fn a_key_stands_for_one_request() {
        let requests = Arc::new(Requests::default());
        let begin = |actor, key, body: &str| requests.begin(actor, key, "/p", body.as_bytes());
        let Ok(Begun::New(ticket)) = begin("a", "k", "1") else { panic!() };
        assert_eq!(word(begin("a", "k", "1")), "InFlight");
        ticket.answer(answered(7));
        assert_eq!(word(begin("a", "k", "1")), "replay 7");
        assert_eq!(word(begin("a", "k", "2")), "KeyReused");
        assert_eq!(word(begin("b", "k", "2")), "new", "another actor's key");
        assert_eq!(word(requests.begin("a", "k", "/q", b"1")), "KeyReused");
    }

    #[test]
    fn a_request_that_got_no_answer_was_never_sent() {
        let requests = Arc::new(Requests::default());
        drop(requests.begin("a", "k", "/p", b"1"));
        assert_eq!(word(requests.begin("a", "k", "/p", b"2")), "new");
        assert!(requests.lock().order.is_empty(), "its place is free again");
    }

    #[test]
    fn memory_is_bounded() {
        let requests = Arc::new(Requests::default());
        for n in 0..MAX_REQUESTS + 10 {
            let Ok(Begun::New(ticket)) = requests.begin("a", &n.to_string(), "/p", b"") else { panic!() };
            ticket.answer(answered(1));
        }
        let inner = requests.lock();
        assert_eq!((inner.by_key.len(), inner.order.len()), (MAX_REQUESTS, MAX_REQUESTS));
        assert!(!inner.by_key.contains_key(&("a".to_owned(), "9".to_owned())));
    }
}
