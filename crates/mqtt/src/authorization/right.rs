//! Rights of clients, as denials are counted and told by them.

/// Right that a client has or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// Connect with its client id.
    Connect,
    /// Have the session of its client id, which belongs to a principal.
    Session,
    /// Have its will published, at CONNECT or when the time for it comes.
    Will,
    /// Publish to a topic.
    Publish,
    /// Have the state store's response sent to a topic.
    Respond,
    /// Subscribe to a filter.
    Subscribe,
    /// Read or watch a key.
    Read,
    /// Write or delete a key.
    Write,
}

impl Right {
    /// How many there are.
    pub const COUNT: usize = 8;
    /// All, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Connect,
        Self::Session,
        Self::Will,
        Self::Publish,
        Self::Respond,
        Self::Subscribe,
        Self::Read,
        Self::Write,
    ];

    /// As logs and metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Session => "session",
            Self::Will => "will",
            Self::Publish => "publish",
            Self::Respond => "respond",
            Self::Subscribe => "subscribe",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_counted_under_their_numbers() {
        for (number, right) in Right::ALL.into_iter().enumerate() {
            assert_eq!(right as usize, number, "{right:?}");
        }
    }
}
