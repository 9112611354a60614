//! The file of `authentication.x509.attributes_file`: which certificates give their clients which attributes.
//!
//! TOML with a table for each name of a certificate, as `authorizationAttributes` of the Azure IoT Operations broker has it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mqtt::principal::Attributes;
use protocol::Text;
use serde::Deserialize;
use thiserror::Error;

use super::name::Name;

/// All names in it. A name has one table.
#[derive(Debug, Default)]
pub(super) struct AttributesBySubject(Vec<(Name, Attributes)>);

/// A file that cannot be used.
#[derive(Debug, Error)]
pub enum AttributesFileError {
    /// It cannot be read, or is not UTF-8.
    #[error("cannot read {}: {error}", .file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is no TOML, or has something else in it.
    #[error("{}: {message}", .file.display())]
    Wrong {
        /// Which.
        file: PathBuf,
        /// What, and where.
        message: String,
    },
    /// The name of a table is not understood.
    #[error("{}: `{table}.subject`: write for example \"CN = pump-7, O = Contoso\"", .file.display())]
    Subject {
        /// Which.
        file: PathBuf,
        /// In which table.
        table: String,
    },
    /// Two tables are for one name.
    #[error("{}: `{table}.subject` is the subject of a table before", .file.display())]
    Twice {
        /// Which.
        file: PathBuf,
        /// The second one.
        table: String,
    },
    /// An attribute is no text of MQTT.
    #[error("{}: `{table}.attributes`: a name or a value is too long or has U+0000 in it", .file.display())]
    Attribute {
        /// Which.
        file: PathBuf,
        /// In which table.
        table: String,
    },
}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    subject: String,
    attributes: BTreeMap<String, String>,
}

impl AttributesBySubject {
    pub(super) fn read(file: &Path) -> Result<Self, AttributesFileError> {
        let text = crate::text_file::read(file).map_err(|error| AttributesFileError::Unreadable {
            file: file.to_owned(),
            error,
        })?;
        Self::parse(file, &text)
    }

    fn parse(file: &Path, text: &str) -> Result<Self, AttributesFileError> {
        let file = || file.to_owned();
        let tables: BTreeMap<String, Table> =
            toml::from_str(text).map_err(|error| AttributesFileError::Wrong {
                file: file(),
                message: error.to_string(),
            })?;
        let mut all = Self::default();
        for (table, Table { subject, attributes }) in tables {
            let Some(name) = Name::parse(&subject) else {
                return Err(AttributesFileError::Subject { file: file(), table });
            };
            if all.of(&name).is_some() {
                return Err(AttributesFileError::Twice { file: file(), table });
            }
            let pair =
                |(name, value): (String, String)| Some((Text::new(name).ok()?, Text::new(value).ok()?));
            let Some(attributes) = attributes.into_iter().map(pair).collect::<Option<Attributes>>() else {
                return Err(AttributesFileError::Attribute { file: file(), table });
            };
            all.0.push((name, attributes));
        }
        Ok(all)
    }

    /// What the certificate with this subject gives.
    pub(super) fn of(&self, subject: &Name) -> Option<&Attributes> {
        let found = self.0.iter().find(|(name, _)| name.is(subject));
        found.map(|(_, attributes)| attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AttributesBySubject, String> {
        AttributesBySubject::parse(Path::new("x509.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_subject_has_its_attributes() {
        let all = parse(
            "[root]\nsubject = \"CN = Root, C = US\"\nattributes = { organization = \"contoso\" }\n\
             [smart-fan]\nsubject = \"CN = smart-fan\"\nattributes = { building = \"17\", floor = \"2\" }\n",
        )
        .expect("right");
        let of = |subject| all.of(&Name::parse(subject).expect("a name"));
        assert_eq!(of("C=US,CN=Root").map(Attributes::len), Some(1));
        let fan = of("CN=smart-fan").expect("there");
        assert_eq!(fan.get("building"), Some(&Text::from_static("17")));
        assert_eq!(of("CN=other"), None);
    }

    #[test]
    fn a_mistake_names_its_table() {
        let table = |subject: &str| format!("subject = \"{subject}\"\nattributes = {{}}\n");
        let told = |text: String| parse(&text).expect_err("a mistake");
        assert_eq!(
            told(format!("[a]\n{}", table("fan"))),
            "x509.toml: `a.subject`: write for example \"CN = pump-7, O = Contoso\""
        );
        assert_eq!(
            told(format!("[a]\n{}[b]\n{}", table("CN=x,C=US"), table("C=US,CN=x"))),
            "x509.toml: `b.subject` is the subject of a table before"
        );
        assert_eq!(
            told("[a]\nsubject = \"CN=x\"\nattributes = { a = \"\\u0000\" }\n".to_owned()),
            "x509.toml: `a.attributes`: a name or a value is too long or has U+0000 in it"
        );
        let unknown = told(format!("[a]\n{}color = 1\n", table("CN=x")));
        assert!(unknown.contains("unknown field `color`"), "{unknown}");
    }
}
