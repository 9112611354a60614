//! The method `"x509"`: the certificate that a client has shown in the handshake of TLS says who it is.
//!
//! Whether the certificate holds was decided in the handshake. Here it is read: its common name is the principal's name, and its subject, or
//! that of an authority that vouches for it, gives attributes. Name constraints of an authority are checked in the handshake for DNS names
//! alone, so below such an authority a common name is no name.

mod attributes_file;
mod name;

use mqtt::authentication::Answer;
use mqtt::principal::{Attributes, Principal};
use protocol::{ReasonCode, Text};
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use self::attributes_file::AttributesBySubject;
use self::name::Name;
use super::verdict::Verdict;
use super::{Asked, AuthenticationError};
use crate::config;
use crate::watched_file::WatchedFile;

pub use self::attributes_file::AttributesFileError;

/// The file of attributes, if there is one.
#[derive(Debug)]
pub(super) struct X509Method {
    attributes: Option<WatchedFile<AttributesBySubject, AttributesFileError>>,
}

impl X509Method {
    pub(super) fn load(settings: &config::X509) -> Result<Self, AuthenticationError> {
        let file = &settings.attributes_file;
        if file.as_os_str().is_empty() {
            return Ok(Self { attributes: None });
        }
        let attributes = WatchedFile::load(
            "authentication.x509.attributes_file",
            file,
            AttributesBySubject::read,
        );
        Ok(Self {
            attributes: Some(attributes.map_err(AuthenticationError::X509)?),
        })
    }

    pub(super) fn answer(&self, asked: &Asked) -> Verdict {
        if asked.certificates.is_empty() || asked.question.method.is_some() {
            return Verdict::NotMine;
        }
        let Some(name) = name_of(asked) else {
            return Verdict::wrong(ReasonCode::NotAuthorized, NAMELESS);
        };
        let Some(attributes) = self.attributes_of(asked) else {
            let why = "the certificate does not hold any more";
            return Verdict::wrong(ReasonCode::NotAuthorized, why);
        };
        Verdict::Answer(Answer::Accept {
            principal: Some(Principal::new(name, attributes)),
            data: None,
            expires_in: None,
        })
    }

    /// Those of the first subject that has some, from the client's own to that of the trusted authority. `None` if no trusted authority
    /// vouches for the certificate any more.
    fn attributes_of(&self, asked: &Asked) -> Option<Attributes> {
        let Some(file) = &self.attributes else {
            return Some(Attributes::default());
        };
        let all = file.current();
        let path = asked.policy.issuers_of(&asked.certificates)?;
        let of = path
            .iter()
            .filter_map(|subject| Name::of_der(subject.as_ref()))
            .find_map(|subject| all.of(&subject).cloned());
        Some(of.unwrap_or_default())
    }

    pub(super) fn look(&self) {
        if let Some(file) = &self.attributes {
            file.look();
        }
    }

    pub(super) fn reload(&self) {
        if let Some(file) = &self.attributes {
            file.reload();
        }
    }
}

const NAMELESS: &str = "the certificate has not exactly one common name, and no DNS name in its place; below an \
                        authority with name constraints only a DNS name counts";

/// The name of a client by its certificate.
pub(super) fn name_of(asked: &Asked) -> Option<Text> {
    let own = asked.certificates.first()?;
    if asked.policy.has_name_constraints(&asked.certificates) {
        let (_, certificate) = X509Certificate::from_der(own).ok()?;
        return Text::new(dns_name_of(&certificate)?).ok();
    }
    name_of_certificate(own)
}

/// The one common name, or the first DNS name if there is none. Of several common names each reader would take another.
fn name_of_certificate(certificate: &CertificateDer<'_>) -> Option<Text> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = Name::of(certificate.subject())?;
    let mut common_names = subject.common_names();
    let name = match (common_names.next(), common_names.next()) {
        (Some(name), None) => name.to_owned(),
        (None, _) => dns_name_of(&certificate)?,
        (Some(_), Some(_)) => return None,
    };
    Text::new(name).ok().filter(|name| !name.is_empty())
}

/// In lower case, since DNS names are compared without case: one principal has one spelling.
fn dns_name_of(certificate: &X509Certificate<'_>) -> Option<String> {
    let names = certificate.subject_alternative_name().ok()??;
    names.value.general_names.iter().find_map(|name| match name {
        GeneralName::DNSName(name) if !name.is_empty() => Some(name.to_ascii_lowercase()),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
