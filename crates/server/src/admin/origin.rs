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

/// Whether somebody follows a link of another page to this server, in a tab of their own: that page sees nothing of it.
pub(super) fn is_link_followed(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
    is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
        && !headers.contains_key(header::ORIGIN)
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
    fn a_link_is_followed_in_a_tab_of_its_own() {
        let check = |mode: &'static str, dest: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("sec-fetch-mode", mode.parse().expect("a header"));
            headers.insert("sec-fetch-dest", dest.parse().expect("a header"));
            is_link_followed(&headers)
        };
        assert!(check("navigate", "document"));
        assert!(!check("navigate", "iframe"));
        assert!(!check("cors", "empty"));
        assert!(!is_link_followed(&HeaderMap::new()));
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
