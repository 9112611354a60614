//! What happened in a run, line by line with the time, for people who look for the cause of a failure.

use std::time::Instant;

use bytes::Bytes;

/// Lines, if somebody wants them.
#[derive(Debug)]
pub(super) struct Trace {
    origin: Instant,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(super) fn new(is_wanted: bool, origin: Instant) -> Self {
        Self {
            origin,
            lines: is_wanted.then(Vec::new),
        }
    }

    pub(super) fn note(&mut self, now: Instant, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let micros = (now - self.origin).as_micros();
            lines.push(format!(
                "{:4}.{:06} {}",
                micros / 1_000_000,
                micros % 1_000_000,
                what()
            ));
        }
    }

    /// All of it, in front of why the run failed.
    pub(super) fn explain(self, why: String) -> String {
        match self.lines {
            Some(lines) => format!("{}\n{why}", lines.join("\n")),
            None => why,
        }
    }
}

/// What a message between two nodes is, in a few words. (state_service/src/service/peers.rs, cluster/src/replica/message.rs)
pub(super) fn message(bytes: &Bytes) -> String {
    const KINDS: [&str; 6] = ["?", "raft", "commands", "read", "read at", "office"];
    const RAFT_TYPES: [&str; 10] = [
        "?",
        "append",
        "append response",
        "vote",
        "vote response",
        "pre-vote",
        "pre-vote response",
        "heartbeat",
        "heartbeat response",
        "timeout now",
    ];
    let group = bytes.get(4).copied().unwrap_or_default();
    let kind = usize::from(bytes.get(5).copied().unwrap_or_default());
    let text = match KINDS.get(kind) {
        Some(known) => (*known).to_owned(),
        None => format!("kind {kind}"),
    };
    if kind != 1 {
        return format!("group {group} {text}, {} bytes", bytes.len());
    }
    let raft = &bytes[6..];
    let raft_type = usize::from(raft.get(1).copied().unwrap_or_default());
    let number = |place: usize| {
        let at = raft.get(place..place + 8);
        at.and_then(|at| at.try_into().ok()).map_or(0, u64::from_be_bytes)
    };
    let rejects = if raft.get(2) == Some(&1) { " reject" } else { "" };
    let (term, log_term, index, commit) = (number(23), number(31), number(39), number(47));
    let raft_type = RAFT_TYPES.get(raft_type).unwrap_or(&"?");
    format!("group {group} {raft_type}{rejects} term {term}, log {index}@{log_term}, commit {commit}")
}
