//! What a token says, once its signature is known to be right (RFC 7519).
//!
//! A pure function of the token, the keys, the settings and the time.

use std::time::Duration;

use mqtt::principal::{Attributes, Principal};
use protocol::Text;
use serde_json::{Map, Value};

use super::key_set::KeySet;
use super::token::{Token, TokenError};
use crate::config::Jwt;

/// Somebody whom a token lets in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verified {
    pub(super) principal: Principal,
    pub(super) expires_in: Duration,
}

/// Longer than any token counts. What is added to a clock has to have an end.
const LIFETIME_MOST: Duration = Duration::from_secs(10 * 366 * 24 * 3_600);

/// Whom the token lets in, at this time in milliseconds since the Unix epoch.
pub(super) fn verify(
    token: &[u8],
    keys: &KeySet,
    settings: &Jwt,
    now_millis: u64,
) -> Result<Verified, TokenError> {
    let token = Token::parse(token)?;
    if !settings.algorithms.contains(&token.algorithm) {
        return Err(TokenError::Algorithm);
    }
    keys.verify(&token)?;
    let claims: Map<String, Value> =
        serde_json::from_slice(&token.payload).map_err(|_| TokenError::Claims)?;
    let claims = Value::Object(claims);
    if claims["iss"].as_str() != Some(settings.issuer.as_str()) {
        return Err(TokenError::Issuer);
    }
    if !is_for(&claims["aud"], &settings.audiences) {
        return Err(TokenError::Audience);
    }
    Ok(Verified {
        expires_in: expires_in(&claims, settings.leeway, now_millis)?,
        principal: principal(&claims, settings)?,
    })
}

fn is_for(audience: &Value, ours: &[String]) -> bool {
    let is_ours = |one: &Value| one.as_str().is_some_and(|one| ours.iter().any(|our| our == one));
    match audience {
        Value::Array(several) => several.iter().any(is_ours),
        one => is_ours(one),
    }
}

fn expires_in(claims: &Value, leeway: Duration, now_millis: u64) -> Result<Duration, TokenError> {
    let leeway = u64::try_from(leeway.as_millis()).unwrap_or(u64::MAX);
    let at = |claim: &Value| match claim {
        Value::Null => Ok(None),
        claim => millis(claim).map(Some).ok_or(TokenError::Claims),
    };
    let expires_at = at(&claims["exp"])?.ok_or(TokenError::NoExpiry)?;
    let left = expires_at.saturating_add(leeway).saturating_sub(now_millis);
    if left == 0 {
        return Err(TokenError::Expired);
    }
    if at(&claims["nbf"])?.is_some_and(|begins_at| begins_at > now_millis.saturating_add(leeway)) {
        return Err(TokenError::NotYetValid);
    }
    Ok(Duration::from_millis(left).min(LIFETIME_MOST))
}

/// A time in seconds, with a fraction or without, in milliseconds. Before 1970 is 1970.
pub(in crate::authentication) fn millis(claim: &Value) -> Option<u64> {
    match claim.as_u64() {
        Some(seconds) => Some(seconds.saturating_mul(1_000)),
        // Too large a number becomes the largest one.
        None => claim.as_f64().map(|seconds| (seconds * 1_000.0) as u64),
    }
}

fn principal(claims: &Value, settings: &Jwt) -> Result<Principal, TokenError> {
    let name = claim(claims, &settings.name_claim).and_then(scalar);
    let name = name.filter(|name| !name.is_empty()).ok_or(TokenError::NoName)?;
    let attributes = settings
        .attributes
        .iter()
        .flat_map(|(name, path)| attributes_of(name, claim(claims, path)));
    Ok(Principal::new(name, attributes.collect::<Attributes>()))
}

/// A claim by name, or by path.
fn claim<'a>(claims: &'a Value, path: &str) -> Option<&'a Value> {
    if path.starts_with('/') {
        claims.pointer(path)
    } else {
        claims.get(path)
    }
}

/// One attribute, or one for each element.
fn attributes_of(name: &str, value: Option<&Value>) -> Vec<(Text, Text)> {
    let is_in = |element: &Value| {
        let name = Text::new(format!("{name}/{}", scalar(element)?)).ok()?;
        Some((name, Text::from_static("true")))
    };
    match value {
        None => Vec::new(),
        Some(Value::Array(elements)) => elements.iter().filter_map(is_in).collect(),
        Some(value) => Text::new(name).ok().zip(scalar(value)).into_iter().collect(),
    }
}

/// `None` for what is no single value, or has characters that no text of MQTT has.
fn scalar(value: &Value) -> Option<Text> {
    match value {
        Value::String(text) => Text::new(text.as_str()).ok(),
        Value::Number(number) => Text::new(number.to_string()).ok(),
        Value::Bool(is) => Text::new(is.to_string()).ok(),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests;
