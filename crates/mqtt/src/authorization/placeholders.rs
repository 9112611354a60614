//! `{principal.clientId}` and the like: what a rule leaves open until a client is there.
//!
//! Braces have no other meaning, so that a misspelt placeholder is an error and not a text that no topic ever is.

use super::subject::Subject;

/// What a placeholder stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Placeholder {
    ClientId,
    Username,
    Attribute(Box<str>),
}

/// A part of a text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    Placeholder(Placeholder),
}

/// Why a text with placeholders is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceholderError {
    /// Something else between braces.
    #[error(
        "`{{{name}}}` is no placeholder: there are {{principal.clientId}}, {{principal.username}} and \
         {{principal.attributes.NAME}}"
    )]
    Unknown {
        /// What stands there.
        name: String,
    },
    /// One brace without the other.
    #[error("a brace has no partner: braces are for placeholders only")]
    Brace,
}

/// Cuts a text into its pieces, none of which is empty.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, PlaceholderError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or(PlaceholderError::Brace)?;
        push_text(&mut pieces, before)?;
        pieces.push(Piece::Placeholder(Placeholder::parse(name)?));
        rest = after;
    }
    push_text(&mut pieces, rest)?;
    Ok(pieces)
}

fn push_text<'a>(pieces: &mut Vec<Piece<'a>>, text: &'a str) -> Result<(), PlaceholderError> {
    if text.contains('}') {
        return Err(PlaceholderError::Brace);
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(())
}

impl Placeholder {
    fn parse(name: &str) -> Result<Self, PlaceholderError> {
        match name {
            "principal.clientId" => Ok(Self::ClientId),
            "principal.username" => Ok(Self::Username),
            _ => match name.strip_prefix("principal.attributes.") {
                Some(attribute) if !attribute.is_empty() => Ok(Self::Attribute(attribute.into())),
                _ => Err(PlaceholderError::Unknown {
                    name: name.to_owned(),
                }),
            },
        }
    }

    /// What it stands for. An empty value is none: with it, a rule for some would be a rule for all.
    pub(super) fn value<'a>(&self, subject: &'a Subject) -> Option<&'a str> {
        let value = match self {
            Self::ClientId => Some(&subject.client_id),
            Self::Username => subject.username.as_ref(),
            Self::Attribute(name) => subject.attributes.get(name),
        };
        value
            .map(|value| value.as_str())
            .filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_placeholders() {
        let attribute = Placeholder::Attribute("room.1".into());
        assert_eq!(
            pieces("a/{principal.clientId}{principal.username}-{principal.attributes.room.1}/b"),
            Ok(vec![
                Piece::Text("a/"),
                Piece::Placeholder(Placeholder::ClientId),
                Piece::Placeholder(Placeholder::Username),
                Piece::Text("-"),
                Piece::Placeholder(attribute),
                Piece::Text("/b"),
            ])
        );
        assert_eq!(pieces(""), Ok(vec![]));
    }

    #[test]
    fn braces_are_for_placeholders_only() {
        for text in [
            "{",
            "}",
            "a}b",
            "{principal.clientId",
            "}{",
            "{principal.clientId}}",
        ] {
            assert_eq!(pieces(text), Err(PlaceholderError::Brace), "{text}");
        }
        for name in [
            "",
            "x",
            "principal",
            "principal.clientid",
            "principal.attributes.",
            "{principal.clientId",
        ] {
            let name = name.to_owned();
            assert_eq!(
                pieces(&format!("a{{{name}}}")),
                Err(PlaceholderError::Unknown { name })
            );
        }
    }
}
