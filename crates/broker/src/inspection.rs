//! What an operator sees of a node: its clients, their subscriptions, and its retained messages.
//!
//! Everything is looked at in pieces, and each says where the next one begins: whoever looks at a million sessions does not stop them. A piece ends
//! when it has found what was asked for, when it has looked at [`LOOKED_AT_MAX`], or when it has [`TEXT_BYTES_MAX`] of names. What changes between two
//! pieces is seen or not; what does not is seen once.

mod clients;
mod retained;
mod slots;
mod subscriptions;

pub use self::clients::{Client, ClientConnection, ClientSeen, ClientsAsked, SubscriptionOfClient, WillSeen};
pub use self::retained::{RetainedAsked, RetainedSeen};
pub use self::slots::{Presence, SlotsOfNode};
pub use self::subscriptions::{SubscriptionPlace, SubscriptionSeen, SubscriptionsAsked};

/// What one piece looks at, at most: a millisecond or so.
pub const LOOKED_AT_MAX: usize = 4_096;

/// Bytes of names in one piece, unless one name has more.
pub const TEXT_BYTES_MAX: usize = 256 << 10;

/// A piece of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece<T, P> {
    /// What was found.
    pub found: Vec<T>,
    /// Where the next piece begins; `None`: this was the last one.
    pub next: Option<P>,
    /// How many there are of this kind, whatever was asked for.
    pub total: usize,
}

/// Whether a name has a text somewhere in it. Letters of ASCII are the same in both cases.
fn has(name: &str, text: &str) -> bool {
    let (name, text) = (name.as_bytes(), text.as_bytes());
    text.is_empty()
        || name
            .windows(text.len())
            .any(|part| part.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn a_name_is_found_by_any_part_of_it() {
        for (name, text, is_found) in [
            ("Pump-7", "", true),
            ("", "", true),
            ("Pump-7", "pump", true),
            ("Pump-7", "P-7", true),
            ("Pump-7", "7-", false),
            ("p", "pump", false),
            ("Größe", "größe", true),
        ] {
            assert_eq!(has(name, text), is_found, "{name} {text}");
        }
    }
}
