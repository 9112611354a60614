//! What the API server of Kubernetes is asked about a token, and how it answers
//! (`authentication.k8s.io/v1` TokenReview, `v1` ServiceAccount).
//!
//! Nothing here does anything: texts become bytes, and bytes become what was said.

use bytes::Bytes;
use mqtt::principal::Attributes;
use protocol::Text;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::authentication::jwt::{millis, payload_of};

/// Where a token is reviewed.
pub(super) const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// What the names of annotations that become attributes begin with, as for the Azure IoT Operations broker.
const ANNOTATION: &str = "aio-broker-auth/";

/// What the name of every service account begins with.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// What a token says of itself, not to be believed before it was reviewed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    /// In milliseconds since the Unix epoch.
    pub(super) expires_at: Option<u64>,
}

/// What a service account is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AccountName {
    namespace: String,
    name: String,
}

/// What was said of a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reviewed {
    /// It is right, it is for us, and of this account.
    Right(AccountName),
    /// It is not.
    Wrong(&'static str),
}

/// Why an answer is none. What is in it is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    #[error("the API server of Kubernetes answers with the status {0}")]
    Status(u16),
    #[error("what the API server of Kubernetes answers is not the JSON that is expected")]
    Content,
}

#[derive(Deserialize)]
struct Review {
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    authenticated: bool,
    #[serde(default)]
    user: User,
    #[serde(default)]
    audiences: Vec<String>,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
struct Account {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    annotations: Map<String, Value>,
}

impl Claimed {
    /// `None` for what is no token of a service account: the API server need not be asked about it.
    pub(super) fn of(token: &[u8]) -> Option<Self> {
        let claims: Map<String, Value> = serde_json::from_slice(&payload_of(token)?).ok()?;
        AccountName::named(claims.get("sub")?.as_str()?)?;
        let expires_at = match claims.get("exp") {
            Some(expires_at) => Some(millis(expires_at)?),
            None => None,
        };
        Some(Self { expires_at })
    }
}

impl AccountName {
    /// `system:serviceaccount:namespace:name`
    fn named(name: &str) -> Option<Self> {
        let (namespace, name) = name.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
        // Such names are parts of paths.
        let is_name = |name: &str| {
            let is_part =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
            name.bytes().all(is_part)
                && name
                    .bytes()
                    .next()
                    .is_some_and(|first| first.is_ascii_alphanumeric())
        };
        (is_name(namespace) && is_name(name)).then(|| Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// As a principal.
    pub(super) fn principal(&self) -> Option<Text> {
        Text::new(format!("{SERVICE_ACCOUNT}{}:{}", self.namespace, self.name)).ok()
    }

    /// Where the API server has it.
    pub(super) fn path(&self) -> String {
        format!(
            "/api/v1/namespaces/{}/serviceaccounts/{}",
            self.namespace, self.name
        )
    }
}

/// The question whether a token is right, and for one of these.
pub(super) fn request(token: &str, audiences: &[String]) -> Bytes {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences},
    });
    Bytes::from(review.to_string())
}

/// What a status and a body say of a token.
pub(super) fn reviewed(status: u16, body: &[u8], audiences: &[String]) -> Result<Reviewed, NoAnswer> {
    if !matches!(status, 200 | 201) {
        return Err(NoAnswer::Status(status));
    }
    let Review { status } = serde_json::from_slice(body).map_err(|_| NoAnswer::Content)?;
    if !status.authenticated {
        return Ok(Reviewed::Wrong(
            "the API server of Kubernetes says that the token is not valid",
        ));
    }
    // A server that does not look at audiences names none.
    if !status
        .audiences
        .iter()
        .any(|audience| audiences.contains(audience))
    {
        return Ok(Reviewed::Wrong("the token is for another audience"));
    }
    Ok(match AccountName::named(&status.user.username) {
        Some(account) => Reviewed::Right(account),
        None => Reviewed::Wrong("the token is not of a service account"),
    })
}

/// The attributes that a service account's annotations say. Others are left out.
pub(super) fn attributes(body: &[u8]) -> Result<Attributes, NoAnswer> {
    let Account { metadata } = serde_json::from_slice(body).map_err(|_| NoAnswer::Content)?;
    let annotations = metadata.annotations.iter();
    let attributes = annotations.filter_map(|(name, value)| {
        let name = name.strip_prefix(ANNOTATION).filter(|name| !name.is_empty())?;
        Some((Text::new(name).ok()?, Text::new(value.as_str()?).ok()?))
    });
    Ok(attributes.collect())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
    use proptest::prelude::*;

    use super::*;

    fn token(claims: &str) -> Vec<u8> {
        format!("e30.{}.AAAA", BASE64.encode(claims)).into_bytes()
    }

    fn review(status: &str) -> Result<Reviewed, NoAnswer> {
        let body = format!(
            "{{\"kind\":\"TokenReview\",\"apiVersion\":\"authentication.k8s.io/v1\",\"metadata\":{{}},\"spec\":{{\"token\":\"x\"}},\"status\":{status}}}"
        );
        reviewed(201, body.as_bytes(), &["broker".to_owned(), "spare".to_owned()])
    }

    #[test]
    fn a_token_is_of_a_service_account() {
        let claimed = |claims: &str| Claimed::of(&token(claims));
        let sub = "\"sub\":\"system:serviceaccount:ns:pump\"";
        assert_eq!(
            claimed(&format!("{{{sub},\"exp\":7}}")),
            Some(Claimed {
                expires_at: Some(7_000)
            })
        );
        assert_eq!(claimed(&format!("{{{sub}}}")), Some(Claimed { expires_at: None }));
        for claims in [
            "",
            "{}",
            "[]",
            &format!("{{{sub},\"exp\":\"7\"}}"),
            "{\"sub\":\"system:node:a\"}",
            "{\"sub\":\"system:serviceaccount:ns\"}",
            "{\"sub\":\"system:serviceaccount:..:pump\",\"exp\":7}",
            "{\"sub\":\"system:serviceaccount:ns:a/../b\"}",
            "{\"sub\":\"system:serviceaccount:ns:a?b\"}",
            "{\"sub\":\"system:serviceaccount:ns:a:b\"}",
            "{\"sub\":\"system:serviceaccount::\"}",
        ] {
            assert_eq!(claimed(claims), None, "{claims}");
        }
        assert_eq!(Claimed::of(b"opaque"), None);
    }

    #[test]
    fn a_token_that_was_reviewed_is_right_or_wrong() {
        let user = "\"user\":{\"username\":\"system:serviceaccount:ns:pump\",\"uid\":\"1\",\"groups\":[\"a\"],\"extra\":{\"k\":[\"v\"]}}";
        let right = review(&format!(
            "{{\"authenticated\":true,{user},\"audiences\":[\"other\",\"spare\"]}}"
        ));
        let Ok(Reviewed::Right(account)) = right else {
            panic!("{right:?}")
        };
        assert_eq!(
            account.principal().as_deref(),
            Some("system:serviceaccount:ns:pump")
        );
        assert_eq!(account.path(), "/api/v1/namespaces/ns/serviceaccounts/pump");
        for status in [
            "{}".to_owned(),
            "{\"error\":\"expired\"}".to_owned(),
            format!("{{\"authenticated\":false,{user},\"audiences\":[\"broker\"]}}"),
            format!("{{\"authenticated\":true,{user},\"audiences\":[\"other\"]}}"),
            // Not looked at by an authenticator that knows no audiences.
            format!("{{\"authenticated\":true,{user}}}"),
            "{\"authenticated\":true,\"audiences\":[\"broker\"]}".to_owned(),
            "{\"authenticated\":true,\"audiences\":[\"broker\"],\"user\":{\"username\":\"admin\"}}"
                .to_owned(),
        ] {
            assert!(matches!(review(&status), Ok(Reviewed::Wrong(_))), "{status}");
        }
    }

    #[test]
    fn what_is_no_review_is_no_answer() {
        for body in [
            "",
            "{}",
            "null",
            "{\"status\":null}",
            "{\"status\":{\"authenticated\":\"true\"}}",
        ] {
            assert_eq!(
                reviewed(201, body.as_bytes(), &[]),
                Err(NoAnswer::Content),
                "{body}"
            );
        }
        for status in [204, 301, 401, 403, 404, 500] {
            let body = "{\"status\":{\"authenticated\":true}}";
            assert_eq!(
                reviewed(status, body.as_bytes(), &[]),
                Err(NoAnswer::Status(status))
            );
        }
    }

    #[test]
    fn a_question_has_the_token_and_for_whom_it_should_be() {
        let body = request("a\"b", &["broker".to_owned()]);
        let read: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(read["kind"], "TokenReview");
        assert_eq!(read["spec"], json!({"token": "a\"b", "audiences": ["broker"]}));
    }

    #[test]
    fn annotations_with_the_prefix_are_attributes() {
        let body = br#"{"kind":"ServiceAccount","metadata":{"name":"pump","annotations":{
            "aio-broker-auth/group":"sensors","aio-broker-auth/":"x","aio-broker-auth/n":7,"other/group":"y"}}}"#;
        let all = attributes(body).expect("right");
        assert_eq!(all.len(), 1);
        assert_eq!(all.get("group").map(|value| &**value), Some("sensors"));
        assert!(attributes(b"{\"metadata\":{}}").expect("right").is_empty());
        for body in ["", "{}", "{\"metadata\":{\"annotations\":[]}}"] {
            assert_eq!(attributes(body.as_bytes()), Err(NoAnswer::Content), "{body}");
        }
    }

    proptest! {
        #[test]
        fn bytes_of_others_are_no_token_and_no_review(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Claimed::of(&bytes), None);
            let said = reviewed(201, &bytes, &["broker".to_owned()]);
            prop_assert!(!matches!(said, Ok(Reviewed::Right(_))));
        }
    }
}
