//! Settings of requests to other servers that several tables have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::https_client::is_header;

/// What a request shows of itself.
pub(super) struct Shown<'a> {
    pub(super) cert: &'a Path,
    pub(super) key: &'a Path,
    pub(super) headers: &'a BTreeMap<String, String>,
    pub(super) header_files: &'a BTreeMap<String, PathBuf>,
}

impl Shown<'_> {
    /// What the types do not say: the setting, and why.
    pub(super) fn violations(&self, mut problem: impl FnMut(&str, &str)) {
        if self.cert.as_os_str().is_empty() != self.key.as_os_str().is_empty() {
            problem("cert", "`cert` and `key` belong together");
        }
        for (setting, names) in [
            ("headers", self.headers.keys().collect::<Vec<_>>()),
            ("header_files", self.header_files.keys().collect()),
        ] {
            if names.iter().any(|name| !is_header(name)) {
                problem(setting, "not the name of a header that a request may have");
            }
        }
    }
}
