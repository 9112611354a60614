//! Directives, one after the other, and what each becomes.

use std::net::IpAddr;
use std::path::Path;

use super::Finding;
use super::directives::{Directive, text_of};
use super::settings::{Listener, Settings, list, quoted};
use super::{acl, advice, passwords};

/// Who may come in: for all listeners, or for each.
#[derive(Debug, Clone, Default)]
struct Security {
    allow_anonymous: Option<bool>,
    password_file: Option<Directive>,
    acl_file: Option<Directive>,
    /// A plugin decides who may do what.
    has_plugin: bool,
}

/// A listener while its directives are read.
#[derive(Debug, Clone, Default)]
struct Draft {
    listener: Listener,
    security: Security,
    /// Certificates of clients.
    cafile: Option<String>,
    require_certificate: bool,
    use_identity: bool,
    use_own_ids: bool,
    /// Said of this listener alone.
    allow_anonymous: Option<bool>,
    /// It is restricted by something that has no counterpart: nobody may connect until somebody has written rules.
    is_closed: bool,
}

#[derive(Debug)]
struct Translation {
    settings: Settings,
    /// The first is the default one, which is there if nothing else is, or if it has a port.
    drafts: Vec<Draft>,
    has_default: bool,
    is_per_listener: bool,
}

/// What the directives become, in files of this directory.
pub(super) fn translate(directives: &[Directive], directory: &Path) -> Settings {
    let is_on =
        |directive: &Directive| directive.name == "per_listener_settings" && directive.value == "true";
    let mut translation = Translation {
        settings: Settings {
            directory: directory.display().to_string(),
            ..Settings::default()
        },
        drafts: vec![Draft::default()],
        has_default: false,
        is_per_listener: directives.iter().any(is_on),
    };
    // What is not said means something else there than here.
    translation
        .settings
        .limits
        .insert("session_expiry_max", quoted("none"));
    translation
        .settings
        .limits
        .insert("queue_messages_max", "1000".to_owned());
    for directive in directives {
        translation.take(directive);
    }
    translation.finish()
}

impl Translation {
    fn take(&mut self, directive: &Directive) {
        let value = directive.value.as_str();
        match directive.name.as_str() {
            "listener" => return self.begin_listener(directive),
            "connection" => {
                let what = format!(
                    "bridge `{value}`: there are no bridges; a program that subscribes at one and publishes at the other does it, or Mosquitto \
                     itself as a bridge beside this server. Nodes of one site can be a cluster (docs/cluster.md)"
                );
                return self.tell(directive, what);
            }
            "port" | "bind_address" => self.has_default = true,
            _ => {}
        }
        // All that belongs to a bridge is told with it.
        if advice::is_of_bridge(&directive.name)
            || self.in_listener(directive)
            || self.security(directive)
            || self.globally(directive)
        {
            return;
        }
        if let Some(advice) = advice::about(&directive.name, value) {
            let closes = self.close(&directive.name);
            let what = if closes { CLOSED } else { "" };
            self.tell(directive, format!("`{}`: {advice}{what}", directive.name));
        }
    }

    /// Lets nobody in where Mosquitto restricts clients by something that has no counterpart here; false if it does not.
    fn close(&mut self, name: &str) -> bool {
        let Some(draft) = self.drafts.last_mut() else {
            return false;
        };
        if advice::restricts_listener(name) {
            draft.is_closed = true;
        } else if advice::is_plugin(name) {
            let place = if self.is_per_listener {
                self.drafts.len() - 1
            } else {
                0
            };
            self.drafts[place].security.has_plugin = true;
        } else {
            return false;
        }
        true
    }

    fn begin_listener(&mut self, directive: &Directive) {
        let (port, place) = directive
            .value
            .split_once(char::is_whitespace)
            .unwrap_or((&directive.value, ""));
        let address = match (port, place.trim()) {
            ("0", path) if !path.is_empty() => Some(format!("unix:{path}")),
            (port, place) => address(place, port),
        };
        let mut draft = Draft::default();
        draft.listener.place = directive.place.clone();
        match address {
            Some(address) => draft.listener.address = address,
            None => {
                draft.listener.address = format!("127.0.0.1:{port}");
                self.tell(
                    directive,
                    format!(
                        "`listener {}`: write the IP address; it is 127.0.0.1 until then",
                        directive.value
                    ),
                );
            }
        }
        self.drafts.push(draft);
    }

    /// What is about one listener; before the first, about the default one.
    fn in_listener(&mut self, directive: &Directive) -> bool {
        let value = directive.value.as_str();
        let is_true = value == "true";
        let Some(draft) = self.drafts.last_mut() else {
            return false;
        };
        let listener = &mut draft.listener;
        match directive.name.as_str() {
            "port" => listener.address = address("", value).unwrap_or_default(),
            "bind_address" => match address(value, port_of(&listener.address)) {
                Some(address) => listener.address = address,
                None => {
                    listener.address = format!("127.0.0.1:{}", port_of(&listener.address));
                    let what = "write the IP address in `listeners.address`; it is 127.0.0.1 until then";
                    self.tell(directive, format!("`bind_address {value}`: {what}"));
                }
            },
            "max_connections" => listener.connections_max = value.parse().ok().filter(|count| *count > 0),
            "protocol" if value == "websockets" => {
                listener.websocket.get_or_insert_default();
                self.tell(directive, "`protocol websockets`: clients ask for the path /mqtt (`listeners.websocket.path`), where Mosquitto takes any".to_owned());
            }
            "protocol" => {}
            "websockets_origin" => listener.websocket.get_or_insert_default().push(value.to_owned()),
            "certfile" => listener.set_tls("cert", quoted(value)),
            "keyfile" => listener.set_tls("key", quoted(value)),
            "crlfile" => listener.set_tls("crl", list(&[value])),
            "cafile" => draft.cafile = Some(value.to_owned()),
            "require_certificate" => draft.require_certificate = is_true,
            "use_identity_as_username" => draft.use_identity = is_true,
            "use_subject_as_username" if is_true => {
                draft.use_identity = true;
                return false;
            }
            "use_username_as_clientid" if is_true => {
                draft.use_own_ids = true;
                return false;
            }
            "listener_allow_anonymous" => draft.allow_anonymous = Some(is_true),
            "bind_interface" => {
                listener.address = format!("127.0.0.1:{}", port_of(&listener.address));
                let what =
                    "name the address of the interface in `listeners.address`; it is 127.0.0.1 until then";
                self.tell(directive, format!("`bind_interface {value}`: {what}"));
            }
            "tls_version" => {
                let version = if value == "tlsv1.3" { "1.3" } else { "1.2" };
                listener.tls.insert("min_version", quoted(version));
                if value == "tlsv1.1" {
                    self.tell(
                        directive,
                        "`tls_version tlsv1.1`: TLS 1.2 is the oldest that is spoken".to_owned(),
                    );
                }
            }
            _ => return false,
        }
        true
    }

    /// Who may come in, and what for: of all listeners, unless `per_listener_settings` is on.
    fn security(&mut self, directive: &Directive) -> bool {
        let place = if self.is_per_listener {
            self.drafts.len() - 1
        } else {
            0
        };
        let security = &mut self.drafts[place].security;
        match directive.name.as_str() {
            "allow_anonymous" => {
                security.allow_anonymous = Some(directive.value == "true");
            }
            "password_file" => security.password_file = Some(directive.clone()),
            "acl_file" => security.acl_file = Some(directive.clone()),
            _ => return false,
        }
        true
    }

    /// What is about the whole server.
    fn globally(&mut self, directive: &Directive) -> bool {
        let value = directive.value.as_str();
        if let Some((limit, value)) = limit(&directive.name, value) {
            self.settings.limits.insert(limit, value);
            return true;
        }
        let top = &mut self.settings.top;
        match (directive.name.as_str(), value) {
            ("sys_interval", "0") => {
                top.insert("sys_interval", quoted("none"));
            }
            ("sys_interval", seconds) if seconds.parse::<u32>().is_ok() => {
                top.insert("sys_interval", quoted(&format!("{seconds}s")));
            }
            ("persistence_location", path) => {
                let path = Path::new(path).join("statehold").display().to_string();
                top.insert("data_dir", quoted(&path));
            }
            ("persistence", "true") => {}
            ("persistence", _) => {
                top.insert("durability", quoted("memory"));
                let what = "`persistence false`: everything is on the disk; `durability = \"memory\"` does not wait for it";
                self.tell(directive, what.to_owned());
            }
            ("log_type", "all" | "debug") => self.settings.log_level = Some("debug".to_owned()),
            ("log_type", _) => {}
            // Any number, which these limits do not have.
            (name, "0") if limit(name, "1").is_some() => {}
            _ => return false,
        }
        true
    }

    fn finish(mut self) -> Settings {
        let mut drafts = std::mem::take(&mut self.drafts);
        let default = drafts.remove(0);
        let common = default.security.clone();
        if self.has_default || drafts.is_empty() {
            let mut default = default;
            if !self.has_default {
                // Without any listener Mosquitto lets those of its own machine in.
                default.listener.address = "127.0.0.1:1883".to_owned();
                default.security.allow_anonymous.get_or_insert(true);
            }
            default.listener.place = "the default listener".to_owned();
            drafts.insert(0, default);
        }
        for mut draft in drafts {
            if !self.is_per_listener {
                let is_default = draft.security.allow_anonymous;
                draft.security = common.clone();
                draft.security.allow_anonymous = draft.security.allow_anonymous.or(is_default);
            }
            draft.security.allow_anonymous = draft.allow_anonymous.or(draft.security.allow_anonymous);
            self.complete(draft);
        }
        self.settings.findings.dedup();
        self.settings
    }

    /// Puts together what the directives of a listener have said of who comes in.
    fn complete(&mut self, draft: Draft) {
        let mut listener = draft.listener;
        listener.allow_anonymous = draft.security.allow_anonymous.unwrap_or(false);
        if let (true, Some(cafile)) = (draft.require_certificate, &draft.cafile) {
            listener.tls.insert("client_ca", quoted(cafile));
            if draft.use_identity {
                listener.methods.push("x509");
                listener.allow_anonymous = false;
            }
        } else {
            listener.tls.remove("crl");
        }
        // Who has said by a certificate who it is needs no password.
        let needs_password = draft.security.password_file.is_some() && !listener.methods.contains(&"x509");
        let is_closed =
            !listener.allow_anonymous && listener.methods.is_empty() && !draft.require_certificate;
        if needs_password || is_closed {
            listener.methods.push("password");
        }
        if let Some(directive) = draft.security.password_file.filter(|_| needs_password) {
            self.take_passwords(&directive);
        }
        // Certificates are asked for, and the authorities are in a directory.
        let lacks_authority = draft.require_certificate && draft.cafile.is_none();
        let restricts = draft.is_closed || lacks_authority;
        listener.policy = match &draft.security.acl_file {
            _ if restricts => Some(self.closed_policy()),
            Some(directive) => {
                let clients = acl::Clients {
                    are_all_nameless: listener.methods.is_empty(),
                    have_own_ids: draft.use_own_ids,
                };
                Some(self.take_policy(directive, clients))
            }
            None if draft.security.has_plugin => Some(self.closed_policy()),
            None => None,
        };
        self.settings.listeners.push(listener);
    }

    fn take_passwords(&mut self, directive: &Directive) {
        let text = match text_of(Path::new(&directive.value)) {
            Ok(text) => text,
            Err(error) => return self.tell(directive, format!("`password_file`: {error:#}")),
        };
        let found = passwords::parse(&text);
        for line in found.lines {
            if !self.settings.passwords.contains(&line) {
                self.settings.passwords.push(line);
            }
        }
        let is_new = |name: &String| !self.settings.users.contains(name);
        let new: Vec<_> = found.names.into_iter().filter(is_new).collect();
        if !new.is_empty() {
            let count = new.len();
            self.tell(directive, format!("`password_file`: {count} hashes are of a kind that is not known here (`$6$`, `$7$`): these names need new passwords"));
        }
        self.settings.users.extend(new);
    }

    /// The name of the policy that a file becomes; one file becomes one policy.
    fn take_policy(&mut self, directive: &Directive, clients: acl::Clients) -> String {
        let text = match text_of(Path::new(&directive.value)) {
            Ok(text) => text,
            Err(error) => {
                self.tell(directive, format!("`acl_file`: {error:#}{CLOSED}"));
                return self.closed_policy();
            }
        };
        let (policy, findings) = acl::policy(&directive.value, &text, clients);
        if let Some((name, _)) = self.settings.policies.iter().find(|(_, other)| *other == policy) {
            return name.clone();
        }
        self.settings.findings.extend(findings);
        let written = self.settings.policies.iter().filter(|(name, _)| name != NOBODY);
        let name = match written.count() {
            0 => "policy".to_owned(),
            count => format!("policy-{}", count + 1),
        };
        self.settings.policies.push((name.clone(), policy));
        name
    }

    /// The name of the policy by which nobody may connect.
    fn closed_policy(&mut self) -> String {
        let policies = &mut self.settings.policies;
        if policies.iter().all(|(name, _)| name != NOBODY) {
            policies.push((NOBODY.to_owned(), acl::closed()));
        }
        NOBODY.to_owned()
    }

    fn tell(&mut self, directive: &Directive, what: String) {
        let place = directive.place.clone();
        self.settings.findings.push(Finding { place, what });
    }
}

/// The policy by which nobody may connect.
const NOBODY: &str = "nobody";

/// What is told of a restriction that has no counterpart.
const CLOSED: &str = "; until you have written rules, nobody may connect (the policy `nobody`)";

/// The limit that a directive is about, and its value.
fn limit(name: &str, value: &str) -> Option<(&'static str, String)> {
    if name == "persistent_client_expiration" {
        return Some(("session_expiry_max", quoted(&duration(value)?)));
    }
    let number: u64 = value.parse().ok()?;
    if name == "max_topic_alias" && number <= u16::MAX.into() {
        return Some(("topic_alias_maximum", number.to_string()));
    }
    let bytes = |count: u64| quoted(&format!("{count} B"));
    Some(match (name, number) {
        (_, 0) => return None,
        ("max_inflight_messages", 1..=65_535) => ("inflight_max", number.to_string()),
        ("max_queued_messages", _) => ("queue_messages_max", number.to_string()),
        ("max_queued_bytes", _) => ("queue_bytes_max", bytes(number)),
        ("max_packet_size", _) => ("packet_size_max", bytes(number)),
        ("message_size_limit", _) => ("packet_size_max", bytes(number.saturating_add(HEAD_BYTES))),
        ("max_keepalive", _) => ("keep_alive_max", quoted(&format!("{number}s"))),
        ("memory_limit", _) => ("memory_max", bytes(number)),
        _ => return None,
    })
}

/// Topic and properties of a message besides its payload.
const HEAD_BYTES: u64 = 64 << 10;

/// An address of a listener; all IPv4 addresses, if none is said.
fn address(place: &str, port: &str) -> Option<String> {
    let port: u16 = port.trim().parse().ok()?;
    let host = match place {
        "" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        place => place,
    };
    match host.parse().ok()? {
        IpAddr::V4(host) => Some(format!("{host}:{port}")),
        IpAddr::V6(host) => Some(format!("[{host}]:{port}")),
    }
}

fn port_of(address: &str) -> &str {
    address.rsplit_once(':').map_or("1883", |(_, port)| port)
}

/// Hours, days, weeks, months or years, in days or hours.
fn duration(text: &str) -> Option<String> {
    let count = |unit| text.strip_suffix(unit)?.trim().parse::<u32>().ok();
    let days = |days: u32| Some(format!("{days}d"));
    if let Some(hours) = count('h') {
        return Some(format!("{hours}h"));
    }
    for (unit, length) in [('d', 1), ('w', 7), ('m', 30), ('y', 365)] {
        if let Some(count) = count(unit) {
            return days(count.checked_mul(length)?);
        }
    }
    None
}
