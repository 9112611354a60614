//! What `statehold.toml` will say, and how it is written.

use std::collections::BTreeMap;

use super::{Finding, PASSWORDS, SETTINGS};

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) listeners: Vec<Listener>,
    /// What stands above all tables.
    pub(super) top: BTreeMap<&'static str, String>,
    pub(super) limits: BTreeMap<&'static str, String>,
    pub(super) log_level: Option<String>,
    /// Name and text of each policy.
    pub(super) policies: Vec<(String, String)>,
    /// Lines of the file of passwords.
    pub(super) passwords: Vec<String>,
    /// Those whose passwords cannot be carried over.
    pub(super) users: Vec<String>,
    pub(super) findings: Vec<Finding>,
    /// Where the files will be.
    pub(super) directory: String,
}

/// One listener.
#[derive(Debug, Clone, Default)]
pub(super) struct Listener {
    /// Where it stands in the file that is translated.
    pub(super) place: String,
    pub(super) address: String,
    pub(super) allow_anonymous: bool,
    pub(super) methods: Vec<&'static str>,
    pub(super) policy: Option<String>,
    pub(super) connections_max: Option<u32>,
    /// Name and value, as they are written.
    pub(super) tls: BTreeMap<&'static str, String>,
    /// Origins of web pages, if it is one for WebSocket.
    pub(super) websocket: Option<Vec<String>>,
}

/// Texts of files.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) settings: String,
    /// Name and text.
    pub(super) policies: Vec<(String, String)>,
    passwords: Option<String>,
}

impl Files {
    /// Name and text of each.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let policies = self
            .policies
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()));
        let passwords = self.passwords.iter().map(|text| (PASSWORDS, text.as_str()));
        std::iter::once((SETTINGS, self.settings.as_str()))
            .chain(policies)
            .chain(passwords)
    }
}

/// A text of TOML: what JSON writes is one.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Settings {
    pub(super) fn files(&self) -> Files {
        let has_passwords = self
            .listeners
            .iter()
            .any(|listener| listener.methods.contains(&"password"));
        let head = "# A line for each name, as `statehold passwd` writes it.\n".to_owned();
        let lines = self.passwords.iter().map(|line| format!("{line}\n"));
        let named = |(name, text): &(String, String)| (format!("{name}.yaml"), text.clone());
        Files {
            settings: self.text(),
            policies: self.policies.iter().map(named).collect(),
            passwords: has_passwords.then(|| head + &lines.collect::<String>()),
        }
    }

    fn text(&self) -> String {
        let mut text = "# Made by `statehold import mosquitto --config`.\n".to_owned();
        put_all(&mut text, &self.top);
        for listener in &self.listeners {
            text += &listener.text();
        }
        if self
            .listeners
            .iter()
            .any(|listener| listener.methods.contains(&"password"))
        {
            let file = quoted(&format!("{}/{PASSWORDS}", self.directory));
            text += &format!("\n[authentication.password]\nfile = {file}\n");
        }
        for (name, _) in &self.policies {
            let file = quoted(&format!("{}/{name}.yaml", self.directory));
            text += &format!("\n[authorization.{name}]\nfile = {file}\n");
        }
        if !self.limits.is_empty() {
            text += "\n[limits]\n";
            put_all(&mut text, &self.limits);
        }
        if let Some(level) = &self.log_level {
            text += &format!("\n[log]\nlevel = {}\n", quoted(level));
        }
        text
    }
}

impl Listener {
    pub(super) fn set_tls(&mut self, name: &'static str, value: String) {
        self.tls.insert(name, value);
    }

    fn text(&self) -> String {
        let mut text = format!(
            "\n# {}\n[[listeners]]\naddress = {}\n",
            self.place,
            quoted(&self.address)
        );
        if let Some(port) = self.address.strip_prefix("0.0.0.0:") {
            text += &format!("# IPv6 needs a listener of its own, at \"[::]:{port}\".\n");
        }
        if self.allow_anonymous {
            text += "allow_anonymous = true\n";
        }
        if !self.methods.is_empty() {
            text += &format!("authentication = {}\n", list(&self.methods));
        }
        if let Some(policy) = &self.policy {
            text += &format!("authorization = {}\n", quoted(policy));
        }
        if let Some(connections_max) = self.connections_max {
            text += &format!("connections_max = {connections_max}\n");
        }
        if !self.tls.is_empty() {
            text += "[listeners.tls]\n";
            put_all(&mut text, &self.tls);
        }
        if let Some(origins) = &self.websocket {
            text += "[listeners.websocket]\n";
            if !origins.is_empty() {
                text += &format!("allowed_origins = {}\n", list(origins));
            }
        }
        text
    }
}

fn put_all(text: &mut String, values: &BTreeMap<&'static str, String>) {
    for (name, value) in values {
        *text += &format!("{name} = {value}\n");
    }
}

/// A list of texts.
pub(super) fn list(texts: &[impl AsRef<str>]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}
