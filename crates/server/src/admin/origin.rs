//! Whether a browser sends a request for a web page of somebody else.
//!
//! There are no cookies, so such a page could do no more than its user; but it could do that without being seen, and reach
//! what only the user's machine reaches.

use axum::http::{HeaderMap, header};

/// Whether a web page of another origin than the server's asks.
pub(super) fn is_cross_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    // By every browser of today, and by nothing else: `none` is what was typed into its line of addresses.
    if text("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none") {
        return true;
    }
    let Some(origin) = text(header::ORIGIN.as_str()) else {
        return false;
    };
    let host = text(header::HOST.as_str()).unwrap_or_default();
    let own = origin.split_once("://").map(|(_, own)| own);
    !own.is_some_and(|own| own.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().expect("a header"));
        }
        is_cross_site(&headers)
    }

    #[test]
    fn programs_and_pages_of_the_server_may_ask() {
        assert!(!check(&[("host", "localhost:8080")]));
        assert!(!check(&[
            ("host", "localhost:8080"),
            ("origin", "http://localhost:8080")
        ]));
        assert!(!check(&[("sec-fetch-site", "same-origin")]));
        assert!(!check(&[("sec-fetch-site", "none")]));
    }

    #[test]
    fn pages_of_others_may_not() {
        assert!(check(&[
            ("host", "localhost:8080"),
            ("origin", "https://evil.example")
        ]));
        assert!(check(&[
            ("host", "localhost:8080"),
            ("origin", "http://localhost:3000")
        ]));
        assert!(check(&[("host", "localhost:8080"), ("origin", "null")]));
        assert!(check(&[("origin", "http://localhost:8080")]));
        assert!(check(&[("sec-fetch-site", "cross-site")]));
        assert!(check(&[("sec-fetch-site", "same-site")]));
    }
}
