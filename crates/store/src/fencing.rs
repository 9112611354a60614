//! Fencing tokens: who may still write to a key.

use protocol::Hlc;

use crate::command::Refusal;

/// Whether a request with this token may change a key with that one. A key without a token takes any request.
pub(crate) fn check(stored: Option<&Hlc>, given: Option<&Hlc>) -> Result<(), Refusal> {
    match (stored, given) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(Refusal::FencingTokenRequired),
        (Some(stored), Some(given)) if given < stored => Err(Refusal::FencingTokenLower),
        (Some(_), Some(_)) => Ok(()),
    }
}

/// How many bytes of a token count towards the quota: its node id, which the client chooses.
pub(crate) fn size(token: Option<&Hlc>) -> u64 {
    token.map_or(0, |token| token.node.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(stored: Option<&str>, given: Option<&str>) -> Result<(), Refusal> {
        let token = |text: Option<&str>| text.map(|text| Hlc::parse(text).unwrap());
        check(token(stored).as_ref(), token(given).as_ref())
    }

    #[test]
    fn a_key_without_a_token_takes_any_request() {
        assert_eq!(checked(None, None), Ok(()));
        assert_eq!(checked(None, Some("0:0:x")), Ok(()));
    }

    #[test]
    fn a_fenced_key_wants_a_token_that_is_equal_or_newer() {
        assert_eq!(checked(Some("5:1:b"), None), Err(Refusal::FencingTokenRequired));
        for lower in ["0:0:x", "4:9:b", "5:0:b", "5:1:a"] {
            assert_eq!(
                checked(Some("5:1:b"), Some(lower)),
                Err(Refusal::FencingTokenLower),
                "{lower}"
            );
        }
        for accepted in ["5:1:b", "5:1:c", "5:2:a", "6:0:a"] {
            assert_eq!(checked(Some("5:1:b"), Some(accepted)), Ok(()), "{accepted}");
        }
    }
}
