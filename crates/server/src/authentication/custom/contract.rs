//! What a server of one's own is asked, and how it answers: the form that the Azure IoT Operations broker has published for its
//! custom authentication, version 0.5.0, with some members of ours beside its own. docs/authentication.md describes both.
//!
//! Nothing here does anything: facts become bytes, and bytes become what was said.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use mqtt::principal::Attributes;
use protocol::{ReasonCode, Text};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::authentication::Asked;
use crate::authentication::rfc3339;

/// As the query of a request has it.
pub(super) const API_VERSION: &str = "0.5.0";

/// What the server said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Allowed(Allowed),
    /// With this reason code.
    Denied(ReasonCode),
    /// It may know more another time; the client is told this.
    TryLater(ReasonCode),
}

/// A client that is let in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// If the server calls the client by another name than its user name.
    pub(super) name: Option<Text>,
    pub(super) attributes: Attributes,
    /// In milliseconds since the Unix epoch.
    pub(super) expires_at: Option<u64>,
    /// Authentication Data for the client.
    pub(super) data: Option<Bytes>,
}

/// Why an answer is none. What is in it may be a secret, and is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    #[error("it answers with the status {0}")]
    Status(u16),
    #[error("it does not speak version {API_VERSION} (422)")]
    Version,
    #[error("its answer with the status {0} is not the JSON that is expected")]
    Content(u16),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certs: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication_method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication_data: Option<String>,
    /// Who the client is already, if it authenticates again.
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<&'a str>,
    listener: String,
    address: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pass {
    expiry: Option<String>,
    #[serde(default)]
    attributes: Map<String, Value>,
    principal: Option<String>,
    authentication_data: Option<String>,
}

#[derive(Deserialize)]
struct Fail {
    reason: u8,
}

/// The facts as JSON.
pub(super) fn request(asked: &Asked) -> Bytes {
    let question = &asked.question;
    let credentials = question.credentials.as_ref();
    let encoded = |bytes: &Bytes| BASE64.encode(bytes);
    let request = Request {
        kind: if credentials.is_some() { "connect" } else { "auth" },
        username: credentials.and_then(|credentials| credentials.username.as_deref()),
        password: credentials.and_then(|credentials| credentials.password.as_ref().map(encoded)),
        certs: (!asked.certificates.is_empty())
            .then(|| asked.certificates.iter().map(|der| pem(der)).collect()),
        client_id: credentials.map(|credentials| &*credentials.client_id),
        authentication_method: question.method.as_deref(),
        authentication_data: question.data.as_ref().map(encoded),
        principal: question.principal.as_ref().map(|principal| &*principal.name),
        listener: asked.policy.listener.to_string(),
        address: asked.peer.ip().map(|ip| ip.to_string()),
    };
    Bytes::from(serde_json::to_vec(&request).expect("texts are JSON"))
}

/// What a status and a body say.
pub(super) fn answer(status: u16, body: &[u8]) -> Result<Said, NoAnswer> {
    match status {
        200 => allowed(body).map(Said::Allowed).ok_or(NoAnswer::Content(status)),
        // A denial is one whatever else it says.
        403 => Ok(serde_json::from_slice(body)
            .map_or(Said::Denied(ReasonCode::NotAuthorized), |fail: Fail| {
                denied(fail.reason)
            })),
        422 => Err(NoAnswer::Version),
        429 => Ok(Said::TryLater(ReasonCode::ServerBusy)),
        other => Err(NoAnswer::Status(other)),
    }
}

fn allowed(body: &[u8]) -> Option<Allowed> {
    let pass: Pass = serde_json::from_slice(body).ok()?;
    let attributes = pass
        .attributes
        .iter()
        .map(|(name, value)| Some((Text::new(name.as_str()).ok()?, attribute(value)?)))
        .collect::<Option<Attributes>>()?;
    let name = match pass.principal {
        Some(name) => Some(named(name)?),
        None => None,
    };
    let expires_at = match pass.expiry {
        Some(expiry) => Some(rfc3339::millis(&expiry)?),
        None => None,
    };
    let data = match pass.authentication_data {
        Some(data) => Some(BASE64.decode(data).ok()?.into()),
        None => None,
    };
    Some(Allowed {
        name,
        attributes,
        expires_at,
        data,
    })
}

/// A name that is there is a name.
fn named(name: String) -> Option<Text> {
    Text::new(name).ok().filter(|name| !name.is_empty())
}

fn attribute(value: &Value) -> Option<Text> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    Text::new(text).ok()
}

fn denied(code: u8) -> Said {
    match ReasonCode::try_from(code) {
        Ok(
            reason @ (ReasonCode::UnspecifiedError
            | ReasonCode::ImplementationSpecificError
            | ReasonCode::ClientIdentifierNotValid
            | ReasonCode::BadUserNameOrPassword
            | ReasonCode::Banned
            | ReasonCode::BadAuthenticationMethod),
        ) => Said::Denied(reason),
        Ok(
            reason @ (ReasonCode::ServerUnavailable
            | ReasonCode::ServerBusy
            | ReasonCode::QuotaExceeded
            | ReasonCode::ConnectionRateExceeded),
        ) => Said::TryLater(reason),
        _ => Said::Denied(ReasonCode::NotAuthorized),
    }
}

/// A certificate as text, lines of 64 characters.
fn pem(der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let lines = text
        .as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line));
    let body: String = lines.flat_map(|line| [line, "\n".into()]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n")
}

#[cfg(test)]
mod tests {
    use mqtt::authentication::{Credentials, Question};
    use mqtt::ids::ConnectionId;
    use mqtt::principal::Principal;
    use proptest::prelude::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use serde_json::json;

    use super::*;
    use crate::authentication::Policy;
    use crate::client_address::ClientAddress;
    use crate::config::{self, AuthenticationMethod, ListenAddress};

    fn allowed(body: &str) -> Option<Allowed> {
        match answer(200, body.as_bytes()) {
            Ok(Said::Allowed(allowed)) => Some(allowed),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error, NoAnswer::Content(200));
                None
            }
        }
    }

    fn denied(body: &str) -> Said {
        answer(403, body.as_bytes()).expect("an answer")
    }

    fn asked(question: Question, certificates: Vec<CertificateDer<'static>>) -> Value {
        let listener = config::Listener::at("127.0.0.1:1883".parse::<ListenAddress>().expect("an address"));
        let listener = config::Listener {
            authentication: vec![AuthenticationMethod::Custom],
            ..listener
        };
        let asked = Asked {
            connection: ConnectionId(0),
            policy: Policy::of(&listener, &listener.address).expect("it asks"),
            question,
            peer: ClientAddress::Ip("192.0.2.7:4711".parse().expect("an address")),
            certificates,
        };
        serde_json::from_slice(&request(&asked)).expect("JSON")
    }

    #[test]
    fn a_request_has_what_the_client_said() {
        let question = Question {
            method: None,
            data: None,
            credentials: Some(Credentials {
                client_id: Text::from_static("c-1"),
                username: None,
                password: None,
            }),
            continuation: None,
            principal: None,
        };
        let certificates = vec![vec![1].into(), vec![2].into()];
        assert_eq!(
            asked(question, certificates),
            json!({
                "type": "connect",
                "clientId": "c-1",
                "certs": "-----BEGIN CERTIFICATE-----\nAQ==\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nAg==\n-----END CERTIFICATE-----\n",
                "listener": "127.0.0.1:1883",
                "address": "192.0.2.7",
            })
        );
        let question = Question {
            method: Some(Text::from_static("EXAMPLE")),
            data: Some(Bytes::from_static(&[0xff])),
            credentials: None,
            continuation: None,
            principal: Some(Principal::named(Text::from_static("pump-7"))),
        };
        assert_eq!(
            asked(question, Vec::new()),
            json!({
                "type": "auth",
                "authenticationMethod": "EXAMPLE",
                "authenticationData": "/w==",
                "principal": "pump-7",
                "listener": "127.0.0.1:1883",
                "address": "192.0.2.7",
            })
        );
    }

    #[test]
    fn the_example_of_the_published_form_is_understood() {
        let body = r#"{"expiry": "2030-05-08T20:04:16+00:00", "attributes": {"group": "group1"}}"#;
        let said = allowed(body).expect("right");
        assert_eq!(said.expires_at, Some(1_904_501_056_000));
        assert_eq!(said.attributes.get("group").map(|value| &**value), Some("group1"));
        assert_eq!((said.name, said.data), (None, None));
        assert_eq!(
            denied(r#"{"reason": 135, "message": "error message"}"#),
            Said::Denied(ReasonCode::NotAuthorized)
        );
    }

    #[test]
    fn an_answer_may_say_more_or_less() {
        let nothing = allowed("{}").expect("right");
        assert!(nothing.attributes.is_empty());
        assert_eq!(nothing.expires_at, None);
        let more =
            r#"{"principal":"pump-7","authenticationData":"AP8=","attributes":{"n":7,"is":true},"new":[1]}"#;
        let more = allowed(more).expect("right");
        assert_eq!(more.name.as_deref(), Some("pump-7"));
        assert_eq!(more.data.as_deref(), Some(&[0, 0xff][..]));
        assert_eq!(more.attributes.get("n").map(|value| &**value), Some("7"));
        assert_eq!(more.attributes.get("is").map(|value| &**value), Some("true"));
    }

    /// It lets nobody in, since what it meant may be less than it seems.
    #[test]
    fn an_answer_that_is_not_understood_is_none() {
        for body in [
            "",
            "null",
            "[]",
            "true",
            "{",
            r#"{"expiry":"soon"}"#,
            r#"{"expiry":7}"#,
            r#"{"attributes":["a"]}"#,
            r#"{"attributes":{"a":["b"]}}"#,
            r#"{"attributes":{"a":null}}"#,
            r#"{"attributes":{"a":"\u0000"}}"#,
            r#"{"principal":""}"#,
            r#"{"authenticationData":"!"}"#,
        ] {
            assert_eq!(allowed(body), None, "{body}");
        }
        for status in [100, 201, 204, 301, 302, 307, 400, 401, 404, 405, 500, 503] {
            assert_eq!(answer(status, b"{}"), Err(NoAnswer::Status(status)));
        }
        let supported = br#"{"supportedVersions":["0.6.0"]}"#;
        assert_eq!(answer(422, supported), Err(NoAnswer::Version));
    }

    #[test]
    fn a_denial_has_a_reason_that_a_client_can_be_told() {
        for (code, expected) in [
            (0x86, Said::Denied(ReasonCode::BadUserNameOrPassword)),
            (0x8a, Said::Denied(ReasonCode::Banned)),
            (0x88, Said::TryLater(ReasonCode::ServerUnavailable)),
            (0x89, Said::TryLater(ReasonCode::ServerBusy)),
            // Success, an AUTH, another server without saying which, no code at all.
            (0x00, Said::Denied(ReasonCode::NotAuthorized)),
            (0x18, Said::Denied(ReasonCode::NotAuthorized)),
            (0x9c, Said::Denied(ReasonCode::NotAuthorized)),
            (0xff, Said::Denied(ReasonCode::NotAuthorized)),
        ] {
            assert_eq!(denied(&format!("{{\"reason\":{code}}}")), expected, "{code:#x}");
        }
        for body in ["", "no", "{}", "{\"reason\":999}", "{\"reason\":\"135\"}"] {
            assert_eq!(denied(body), Said::Denied(ReasonCode::NotAuthorized), "{body}");
        }
        assert_eq!(answer(429, b""), Ok(Said::TryLater(ReasonCode::ServerBusy)));
    }

    #[test]
    fn a_certificate_is_written_as_it_is_read() {
        for length in [0, 1, 47, 48, 49, 500] {
            let der: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            let read = CertificateDer::from_pem_slice(pem(&der).as_bytes()).expect("PEM");
            assert_eq!(&*read, der);
        }
    }

    proptest! {
        #[test]
        fn bytes_that_are_no_answer_let_nobody_in(status in any::<u16>(), body in prop::collection::vec(any::<u8>(), 0..100)) {
            let is_object = serde_json::from_slice::<Map<String, Value>>(&body).is_ok();
            let is_let_in = matches!(answer(status, &body), Ok(Said::Allowed(_)));
            prop_assert!(!is_let_in || is_object && status == 200);
        }
    }
}
