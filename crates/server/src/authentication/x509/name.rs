//! Distinguished names of X.509, as certificates have them and as people write them.

use std::fmt;

use x509_parser::prelude::{FromDer as _, X509Name};

/// A name: its attributes in their order, each with its type as an object identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(Vec<(String, String)>);

/// Types as they are written, and their object identifiers. (RFC 4519)
const TYPES: [(&str, &str); 12] = [
    ("CN", COMMON_NAME),
    ("C", "2.5.4.6"),
    ("DC", "0.9.2342.19200300.100.1.25"),
    ("EMAILADDRESS", "1.2.840.113549.1.9.1"),
    ("GN", "2.5.4.42"),
    ("L", "2.5.4.7"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("SERIALNUMBER", "2.5.4.5"),
    ("SN", "2.5.4.4"),
    ("ST", "2.5.4.8"),
    ("UID", "0.9.2342.19200300.100.1.1"),
];

const COMMON_NAME: &str = "2.5.4.3";

impl Name {
    /// As in `CN = smart-fan, O = Contoso`. A backslash takes the meaning of what follows, and a type may be an object
    /// identifier.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut attributes = Vec::new();
        for attribute in split(text) {
            let (kind, value) = attribute.split_once('=')?;
            let (kind, value) = (kind.trim().to_ascii_uppercase(), unescape(value.trim())?);
            let is_identifier = kind.contains('.') && kind.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let known = TYPES.iter().find(|(name, _)| *name == kind);
            let kind = match known {
                Some((_, identifier)) => (*identifier).to_owned(),
                None if is_identifier => kind,
                None => return None,
            };
            attributes.push((kind, value));
        }
        Some(Self(attributes))
    }

    /// `None` if it has a value that is no text.
    pub(super) fn of(name: &X509Name<'_>) -> Option<Self> {
        let attribute = |attribute: &x509_parser::prelude::AttributeTypeAndValue<'_>| {
            let value = attribute.as_str().ok()?;
            Some((attribute.attr_type().to_id_string(), value.to_owned()))
        };
        name.iter_attributes()
            .map(attribute)
            .collect::<Option<_>>()
            .map(Self)
    }

    /// Of DER.
    pub(super) fn of_der(name: &[u8]) -> Option<Self> {
        let (rest, name) = X509Name::from_der(name).ok()?;
        rest.is_empty().then(|| Self::of(&name))?
    }

    /// The common names in it.
    pub(super) fn common_names(&self) -> impl Iterator<Item = &str> {
        let attributes = self.0.iter();
        attributes
            .filter(|(kind, _)| kind == COMMON_NAME)
            .map(|(_, value)| value.as_str())
    }

    /// Whether both are the same name, in whichever of the two orders it is written.
    pub(super) fn is(&self, other: &Self) -> bool {
        self == other || self.0.iter().rev().eq(&other.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, value)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(to, "{separator}{kind} = {value}")?;
        }
        Ok(())
    }
}

/// At commas that nothing takes the meaning of.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut is_escaped) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        if character == ',' && !is_escaped {
            parts.push(&text[start..at]);
            start = at + 1;
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        out.push(if character == '\\' {
            characters.next()?
        } else {
            character
        });
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).expect(text)
    }

    #[test]
    fn a_name_is_the_same_in_both_orders_and_however_it_is_spaced() {
        let root = name("CN = Contoso Root CA Cert, OU = Engineering, C = US");
        assert!(root.is(&name("cn=Contoso Root CA Cert,ou=Engineering,c=US")));
        assert!(root.is(&name("C=US, OU=Engineering, 2.5.4.3=Contoso Root CA Cert")));
        for other in [
            "CN = Contoso Root CA Cert, OU = Engineering",
            "CN = Contoso Root CA Cert, OU = engineering, C = US",
            "OU = Engineering, CN = Contoso Root CA Cert, C = US",
            "CN = Contoso Root CA Cert, OU = Engineering, C = US, C = US",
        ] {
            assert!(!root.is(&name(other)), "{other}");
        }
    }

    #[test]
    fn a_backslash_takes_the_meaning_of_what_follows() {
        let escaped = name(r"CN = a\, b\\, O = c=d");
        assert_eq!(escaped.to_string(), r"2.5.4.3 = a, b\, 2.5.4.10 = c=d");
        assert_eq!(escaped.common_names().collect::<Vec<_>>(), [r"a, b\"]);
    }

    #[test]
    fn what_is_not_quite_a_name_is_none() {
        for text in [
            "", "CN", "CN = ", "CN = a,", "XX = a", "CN = a\\", "3 = a", ". = ",
        ] {
            assert_eq!(Name::parse(text), None, "{text:?}");
        }
        for der in [
            &b""[..],
            b"\x30",
            b"\x30\x80",
            b"\x30\x05\x31\x03\x30\x01",
            b"\x30\x00\x00",
        ] {
            assert_eq!(Name::of_der(der), None, "{der:?}");
        }
    }
}
