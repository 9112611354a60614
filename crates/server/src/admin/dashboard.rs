//! The dashboard: files for a browser, which are part of the binary. What they show they ask the other pages for.
//!
//! They hold no secret and are served without a token, since it is they that ask a person for one. Nothing is loaded from elsewhere,
//! no script stands in a page, and no text becomes HTML (`require-trusted-types-for`): what clients have made up is shown as it is.

use aws_lc_rs::digest;
use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A file of the dashboard.
struct Asset {
    /// Below `/ui/`.
    path: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($path:literal),* $(,)?) => {
        &[$(Asset { path: $path, bytes: include_bytes!(concat!("dashboard/", $path)) }),*]
    };
}

const ASSETS: &[Asset] = assets![
    "api.js",
    "app.js",
    "dialog.js",
    "dom.js",
    "figures.css",
    "format.js",
    "icon.svg",
    "index.html",
    "live.js",
    "metrics.js",
    "mqtt/client.js",
    "mqtt/login.js",
    "mqtt/packet.js",
    "mqtt/reasons.js",
    "mqtt/store.js",
    "paged.js",
    "parts.css",
    "plot.js",
    "style.css",
    "table.js",
    "views/attention.js",
    "views/clients.js",
    "views/connected.js",
    "views/console.js",
    "views/groups.js",
    "views/key.js",
    "views/keys.js",
    "views/messages.js",
    "views/nodes.js",
    "views/overview.js",
    "views/queues.js",
    "views/retained.js",
    "views/rings.js",
    "views/subscriptions.js",
    "views/tap.js",
];

const INDEX: &str = "index.html";

/// A page may ask this server, and speak MQTT with the listener that its user names: a WebSocket to any address.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(index))
        .route("/ui/{*path}", get(file))
}

/// Whether a path is one of the dashboard's own files, for which nobody needs a token.
pub(super) fn is_asset(path: &str) -> bool {
    path == "/" || path.starts_with("/ui/")
}

async fn index(headers: HeaderMap) -> Response {
    answer(INDEX, &headers)
}

async fn file(Path(path): Path<String>, headers: HeaderMap) -> Response {
    answer(&path, &headers)
}

/// With a tag by which a browser finds out whether it has the file already: another version of the server has others.
fn answer(path: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.path == path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag = tag(asset.bytes);
    let known = headers.get(header::IF_NONE_MATCH).map(HeaderValue::as_bytes);
    let mut response = if known == Some(tag.as_bytes()) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, content_type(path))], asset.bytes).into_response()
    };
    let says = response.headers_mut();
    says.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    says.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        says.insert(header::ETAG, tag);
    }
    response
}

fn tag(bytes: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, bytes);
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(hash.as_ref()))
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.') {
        Some((_, "html")) => "text/html; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths of all files below a directory.
    fn files(directory: &std::path::Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).expect("the directory is there") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a name that is text");
            if entry.file_type().expect("a type").is_dir() {
                files(&entry.path(), &format!("{prefix}{name}/"), found);
            } else {
                found.push(format!("{prefix}{name}"));
            }
        }
    }

    #[test]
    fn every_file_is_served_and_its_type_is_known() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin/dashboard");
        let mut there = Vec::new();
        files(&directory, "", &mut there);
        there.sort();
        let mut served: Vec<_> = ASSETS.iter().map(|asset| asset.path.to_owned()).collect();
        served.sort();
        assert_eq!(served, there);
        for asset in ASSETS {
            assert_ne!(
                content_type(asset.path),
                "application/octet-stream",
                "{}",
                asset.path
            );
        }
    }

    #[test]
    fn modules_load_only_what_is_served() {
        for asset in ASSETS.iter().filter(|asset| asset.path.ends_with(".js")) {
            let text = std::str::from_utf8(asset.bytes).expect("text");
            let folder = asset.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            for rest in text.split(" from \"").skip(1) {
                let from = rest.split('"').next().expect("the first part is always there");
                let path = match from.strip_prefix("../") {
                    Some(above) => above.to_owned(),
                    None => format!("{folder}/{}", from.trim_start_matches("./"))
                        .trim_start_matches('/')
                        .to_owned(),
                };
                assert!(
                    ASSETS.iter().any(|other| other.path == path),
                    "{}: {from}",
                    asset.path
                );
            }
        }
    }

    #[test]
    fn no_text_becomes_html_or_script() {
        let ways = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ];
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.bytes).expect("text");
            for way in ways {
                assert!(!text.contains(way), "{}: {way}", asset.path);
            }
        }
        let response = answer(INDEX, &HeaderMap::new());
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY]
            .to_str()
            .expect("text");
        for part in [
            "default-src 'none'",
            "script-src 'self';",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        let index = ASSETS
            .iter()
            .find(|asset| asset.path == INDEX)
            .expect("the page is there");
        let index = std::str::from_utf8(index.bytes).expect("text");
        assert_eq!(
            index.matches("<script").count(),
            index.matches("<script type=\"module\" src=\"/ui/").count()
        );
    }

    #[test]
    fn a_file_that_is_known_is_not_sent_again() {
        let first = answer("app.js", &HeaderMap::new());
        assert_eq!(first.status(), StatusCode::OK);
        let mut headers = HeaderMap::new();
        let tag = first.headers().get(header::ETAG).expect("a tag").clone();
        headers.insert(header::IF_NONE_MATCH, tag);
        assert_eq!(answer("app.js", &headers).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(answer("style.css", &headers).status(), StatusCode::OK);
        assert_eq!(
            answer("../dashboard.rs", &headers).status(),
            StatusCode::NOT_FOUND
        );
    }
}
