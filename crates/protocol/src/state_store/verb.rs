//! Verbs of requests, for figures of a server.
//!
//! [`RequestKind`](super::RequestKind) has those that an answer is read by; here a request without a known verb counts as well.

/// Verb of a request, as figures count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's verbs")]
pub enum Verb {
    Set,
    Get,
    Del,
    VDel,
    KeyNotify,
    Scan,
    Unknown,
}

impl Verb {
    /// How many there are.
    pub const COUNT: usize = 7;
    /// All, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Set,
        Self::Get,
        Self::Del,
        Self::VDel,
        Self::KeyNotify,
        Self::Scan,
        Self::Unknown,
    ];
}
