//! What etcd writes into its buckets: keys of its history, and leases (protocol buffers).

/// A key as a revision has written it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeyValue {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// 0: none.
    pub(super) lease: i64,
}

/// A lease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lease {
    /// Seconds that it is granted for.
    pub(super) granted: i64,
    /// Seconds that it has left, if etcd has written that down.
    pub(super) remaining: i64,
}

/// The place of a write in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WrittenAt {
    main: u64,
    sub: u64,
}

impl WrittenAt {
    /// Parses the name of an entry of the history, and whether it is a deletion.
    pub(super) fn parse(name: &[u8]) -> Option<(Self, bool)> {
        let (main, rest) = name.split_first_chunk()?;
        let (sub, rest) = rest.strip_prefix(b"_")?.split_first_chunk()?;
        let is_deletion = match rest {
            [] => false,
            b"t" => true,
            _ => return None,
        };
        let revision = Self {
            main: u64::from_be_bytes(*main),
            sub: u64::from_be_bytes(*sub),
        };
        Some((revision, is_deletion))
    }
}

impl KeyValue {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut found = Self::default();
        for_each_field(bytes, |number, field| match (number, field) {
            (1, Field::Bytes(key)) => found.key = key.to_vec(),
            (5, Field::Bytes(value)) => found.value = value.to_vec(),
            (6, Field::Number(lease)) => found.lease = lease.cast_signed(),
            _ => {}
        })?;
        Some(found)
    }
}

impl Lease {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut found = Self::default();
        for_each_field(bytes, |number, field| match (number, field) {
            (2, Field::Number(granted)) => found.granted = granted.cast_signed(),
            (3, Field::Number(remaining)) => found.remaining = remaining.cast_signed(),
            _ => {}
        })?;
        Some(found)
    }

    /// Milliseconds that it lasts from now on, as far as a snapshot can tell.
    pub(super) fn left_ms(self) -> u64 {
        let seconds = if self.remaining > 0 {
            self.remaining
        } else {
            self.granted
        };
        u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000)
    }
}

#[derive(Debug)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Goes through a message; `None`: it is none.
fn for_each_field<'a>(mut bytes: &'a [u8], mut take: impl FnMut(u64, Field<'a>)) -> Option<()> {
    while !bytes.is_empty() {
        let tag = number(&mut bytes)?;
        let field = match tag & 7 {
            0 => Field::Number(number(&mut bytes)?),
            1 => skip(&mut bytes, 8)?,
            2 => {
                let length = usize::try_from(number(&mut bytes)?).ok()?;
                let (field, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Field::Bytes(field)
            }
            5 => skip(&mut bytes, 4)?,
            _ => return None,
        };
        take(tag >> 3, field);
    }
    Some(())
}

fn skip<'a>(bytes: &mut &'a [u8], count: usize) -> Option<Field<'a>> {
    *bytes = bytes.split_at_checked(count)?.1;
    Some(Field::Other)
}

/// A number of 7 bits in each byte, the lowest first.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_with_fields_that_are_not_known() {
        // key "k", create_revision 300, a fixed64 and a fixed32 of no meaning, value "v", lease -1.
        let mut message = vec![0x0A, 1, b'k', 0x10, 0xAC, 2, 0x79];
        message.extend([0; 8]);
        message.push(0x7D);
        message.extend([0; 4]);
        message.extend([0x2A, 1, b'v', 0x30]);
        message.extend([0xFF; 9]);
        message.push(1);
        let expected = KeyValue {
            key: b"k".to_vec(),
            value: b"v".to_vec(),
            lease: -1,
        };
        assert_eq!(KeyValue::parse(&message), Some(expected));
        let lease = Lease::parse(&[8, 5, 0x10, 60]).expect("a lease");
        assert_eq!(lease.left_ms(), 60_000);
        let lease = Lease::parse(&[0x10, 60, 0x18, 7]).expect("a lease");
        assert_eq!(lease.left_ms(), 7_000);
        assert_eq!(
            Lease {
                granted: -1,
                remaining: 0
            }
            .left_ms(),
            0
        );
    }

    #[test]
    fn what_is_no_message_is_not_taken_for_one() {
        let cases: [&[u8]; 5] = [&[0x0A, 2, b'k'], &[0x0A], &[0x0B], &[0x08, 0x80], &[0x79, 1]];
        for message in cases {
            assert_eq!(KeyValue::parse(message), None, "{message:?}");
        }
        assert_eq!(KeyValue::parse(&[[8].as_slice(), &[0xFF; 11]].concat()), None);
    }

    #[test]
    fn revisions_are_ordered_as_they_were_written() {
        let parse = |main: u64, sub: u64, end: &[u8]| {
            let name = [&main.to_be_bytes()[..], b"_", &sub.to_be_bytes(), end].concat();
            WrittenAt::parse(&name)
        };
        let (first, is_deletion) = parse(1, 300, b"").expect("one");
        assert!(!is_deletion);
        let (second, is_deletion) = parse(2, 0, b"t").expect("one");
        assert!(is_deletion && first < second);
        assert_eq!(parse(1, 0, b"x"), None);
        assert_eq!(WrittenAt::parse(b"short"), None);
    }
}
