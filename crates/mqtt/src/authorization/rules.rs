//! A policy as somebody wrote it: plain data, which nobody has looked at yet.
//!
//! It has the form that the policies of the Azure IoT Operations broker have (docs/authorization.md). The edge reads files
//! into it, and [`Policy::new`](super::Policy::new) is the only one who says what it means.

use std::collections::BTreeMap;
use std::fmt;

/// All rules of a policy. Whatever none of them allows is denied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// In the order of the file, which decides nothing but which one is named when several allow the same.
    pub rules: Vec<Rule>,
}

/// Some clients, and what they may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// Where it begins in its file.
    pub line: Option<u32>,
    /// Which clients.
    pub principals: Principals,
    /// What they may do with connections and topics.
    pub broker_resources: Vec<BrokerResource>,
    /// What they may do with keys of the state store.
    pub state_store_resources: Vec<StateStoreResource>,
}

/// The clients of a rule: those that one of all these lines is about. None if there is no line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Principals {
    /// Names that an authentication has found; `*` is any.
    pub usernames: Vec<String>,
    /// Client ids; `*` is any.
    pub client_ids: Vec<String>,
    /// Attributes that a client must have, all of one line.
    pub attributes: Vec<BTreeMap<String, String>>,
}

/// Something that may be done with connections or topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerResource {
    /// What.
    pub method: BrokerMethod,
    /// By clients with one of these client ids only, which may have `*` and placeholders. By all if there is none.
    pub client_ids: Vec<String>,
    /// With these topics, which may have wildcards and placeholders.
    pub topics: Vec<String>,
    /// Publish: whether `$high_priority` counts in messages to these topics. `None`: it is not said.
    pub high_priority: Option<bool>,
}

/// What may be done with connections and topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BrokerMethod {
    /// Have a connection.
    Connect,
    /// Publish messages, and have wills.
    Publish,
    /// Have subscriptions.
    Subscribe,
}

/// Something that may be done with keys of the state store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateStoreResource {
    /// What.
    pub method: KeyMethod,
    /// With which keys.
    pub keys: Keys,
}

/// What may be done with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyMethod {
    /// GET, SCAN and KEYNOTIFY.
    Read,
    /// SET, DEL and VDEL.
    Write,
    /// Both.
    ReadWrite,
    /// Hearing the notifications of others.
    Audit,
}

/// Keys of the state store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// Globs, which may have placeholders.
    Pattern(Vec<String>),
    /// The keys themselves, if they are text.
    Text(Vec<String>),
    /// The keys themselves.
    Binary(Vec<Vec<u8>>),
}

/// Which rule of a policy, counted from 0; people are told a number from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleIndex(pub u32);

impl KeyMethod {
    /// Whether it is about reading.
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether it is about writing.
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }
}

impl Keys {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Pattern(texts) | Self::Text(texts) => texts.len(),
            Self::Binary(keys) => keys.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl RuleIndex {
    pub(super) fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("a policy has at most RULES_MAX rules"))
    }

    /// Its place in [`Rules::rules`].
    pub fn position(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for BrokerMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "Connect",
            Self::Publish => "Publish",
            Self::Subscribe => "Subscribe",
        })
    }
}

impl fmt::Display for RuleIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&(u64::from(self.0) + 1), f)
    }
}
