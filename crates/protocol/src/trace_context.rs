//! W3C Trace Context in user properties: to which trace a message belongs, as its sender says.
//!
//! <https://www.w3.org/TR/trace-context/>, and its form for MQTT 5: the fields are user properties of the same names
//! (<https://w3c.github.io/trace-context-mqtt/>).

use std::fmt;

use crate::Text;
use crate::properties::UserProperties;

/// The user property with the trace and the span that a message belongs to.
pub const TRACEPARENT: &str = "traceparent";

/// The user property with what systems for traces add to that.
pub const TRACESTATE: &str = "tracestate";

/// A trace. Never all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId([u8; 16]);

/// A span of a trace. Never all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanId([u8; 8]);

/// A place in a trace: what `traceparent` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// Of which trace.
    pub trace: TraceId,
    /// Below which of its spans.
    pub span: SpanId,
    /// `trace-flags`: bit 0 is "sampled", bit 1 "the trace id is random".
    pub flags: u8,
}

/// What of a message's user properties is about traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing that can be read.
    Nothing,
    /// A place in a trace, and the `tracestate` that came with it.
    Context(TraceContext, Option<Text>),
}

/// Bytes of `traceparent` of version 00.
const LENGTH: usize = 55;

/// Bytes of `tracestate` that have to be kept, by section 3.3.1.5. A longer one is left out.
const STATE_LENGTH_MAX: usize = 512;

/// `trace-flags`: the sender keeps spans of this trace.
const SAMPLED: u8 = 1;

impl TraceId {
    /// `None`: all zero, which is no id.
    pub fn new(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Its bytes.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl SpanId {
    /// `None`: all zero, which is no id.
    pub fn new(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// Its bytes.
    pub fn bytes(self) -> [u8; 8] {
        self.0
    }
}

impl TraceContext {
    /// Reads `traceparent` (section 3.2). One of a later version is read as far as version 00 goes, as section 4 wants it.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.as_bytes().split_at_checked(LENGTH)?;
        let [version] = hex(head.get(..2)?)?;
        let is_whole = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|next| *next == b'-'),
        };
        let has_dashes = [2, 35, 52].iter().all(|place| head.get(*place) == Some(&b'-'));
        let [flags] = hex(head.get(53..)?)?;
        let trace = TraceId::new(hex(head.get(3..35)?)?)?;
        let span = SpanId::new(hex(head.get(36..52)?)?)?;
        (is_whole && has_dashes).then_some(Self { trace, span, flags })
    }

    /// What a message's user properties say. Several `traceparent` are none.
    pub fn find(properties: &UserProperties) -> Found {
        let (mut context, mut state) = (None, None);
        for (name, value) in properties.iter() {
            match name {
                TRACEPARENT if context.is_some() => return Found::Nothing,
                TRACEPARENT => context = Some(Self::parse(value)),
                TRACESTATE => state = Some(value).filter(|_| state.is_none()),
                _ => {}
            }
        }
        let is_kept = |state: &&str| state.len() <= STATE_LENGTH_MAX && !state.is_empty();
        match context.flatten() {
            Some(context) => {
                let state = state.filter(is_kept).and_then(|state| Text::new(state).ok());
                Found::Context(context, state)
            }
            None => Found::Nothing,
        }
    }

    /// Whether its sender keeps spans of the trace.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The same, and spans of it are kept.
    #[must_use]
    pub fn sampled(self) -> Self {
        let flags = self.flags | SAMPLED;
        Self { flags, ..self }
    }
}

impl fmt::Display for TraceContext {
    /// `traceparent` of version 00.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// Lower-case digits, two for each byte; nothing else is allowed.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let mut bytes = [0; N];
    if !rest.is_empty() || pairs.len() != N {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn found<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Found {
        TraceContext::find(&UserProperties::from_pairs(pairs).unwrap())
    }

    /// The example of section 3.2.4.
    #[test]
    fn an_example_is_read_and_written_as_it_was() {
        let context = TraceContext::parse(EXAMPLE).expect("it is an example");
        assert_eq!(context.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.span.to_string(), "00f067aa0ba902b7");
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), EXAMPLE);
        let other = TraceContext::parse(&EXAMPLE.replace("-01", "-02")).expect("another flag");
        assert!(!other.is_sampled());
        assert_eq!(other.sampled().flags, 3);
    }

    #[test]
    fn what_is_not_as_the_text_says_is_refused() {
        let zeros = |digits: usize| "0".repeat(digits);
        for wrong in [
            String::new(),
            EXAMPLE.to_uppercase(),
            EXAMPLE[..54].to_owned(),
            format!("{EXAMPLE}-00"),
            format!("{EXAMPLE} "),
            EXAMPLE.replacen("00-", "ff-", 1),
            EXAMPLE.replacen("00-", "0g-", 1),
            EXAMPLE.replace('-', "_"),
            EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &zeros(32)),
            EXAMPLE.replace("00f067aa0ba902b7", &zeros(16)),
            EXAMPLE.replacen("4bf92f35", "4bf92f3é", 1),
        ] {
            assert_eq!(TraceContext::parse(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let later = EXAMPLE.replacen("00-", "cc-", 1);
        let known = TraceContext::parse(EXAMPLE);
        assert_eq!(TraceContext::parse(&later), known);
        assert_eq!(TraceContext::parse(&format!("{later}-what-will-be")), known);
        assert_eq!(TraceContext::parse(&format!("{later}.what-will-be")), None);
    }

    #[test]
    fn a_message_has_one_context_or_none() {
        let context = TraceContext::parse(EXAMPLE).unwrap();
        assert_eq!(found([("a", "b")]), Found::Nothing);
        assert_eq!(found([(TRACEPARENT, EXAMPLE)]), Found::Context(context, None));
        let state = Text::from_static("a=1");
        assert_eq!(
            found([(TRACESTATE, "a=1"), ("traceparent", EXAMPLE)]),
            Found::Context(context, Some(state))
        );
        assert_eq!(
            found([(TRACEPARENT, EXAMPLE), (TRACEPARENT, EXAMPLE)]),
            Found::Nothing
        );
        assert_eq!(found([("Traceparent", EXAMPLE)]), Found::Nothing);
        let long = "a".repeat(STATE_LENGTH_MAX + 1);
        assert_eq!(
            found([(TRACEPARENT, EXAMPLE), (TRACESTATE, &long)]),
            Found::Context(context, None)
        );
    }

    proptest! {
        #[test]
        fn what_is_read_of_version_00_is_written_as_it_was(text in "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}") {
            let text = format!("00{}", &text[2..]);
            prop_assert_eq!(TraceContext::parse(&text).map(|context| context.to_string()), Some(text));
        }

        #[test]
        fn any_text_is_refused_or_comes_back(text in "(00|0g|cc|ff)?[-0-9a-fG]{0,60}") {
            if let Some(context) = TraceContext::parse(&text) {
                prop_assert_eq!(&context.to_string()[2..], &text[2..LENGTH]);
            }
        }
    }
}
