//! Directives that have no counterpart: what to do instead.

/// Nothing has to be done: it is so here anyway, or is about how Mosquitto itself runs.
const NEEDLESS: [&str; 23] = [
    "allow_duplicate_messages",
    "allow_zero_length_clientid",
    "autosave_interval",
    "autosave_on_changes",
    "check_retain_source",
    "connection_messages",
    "log_facility",
    "log_timestamp",
    "log_timestamp_format",
    "max_log_entries",
    "per_listener_settings",
    "persistence_file",
    "pid_file",
    "retry_interval",
    "set_tcp_nodelay",
    "store_clean_interval",
    "tls_keyform",
    "trace_level",
    "user",
    "websockets_headers_size",
    "websockets_log_level",
    "dhparamfile",
    "enable_control_api",
];

const ADVICE: [(&str, &str); 25] = [
    ("auth_plugin", PLUGIN),
    ("plugin", PLUGIN),
    ("plugin_load", PLUGIN),
    ("global_plugin", PLUGIN),
    (
        "auto_id_prefix",
        "ids that the server gives are drawn at random; a policy can still name them: clients that need rights should choose an id",
    ),
    (
        "capath",
        "put the authorities into one file, `listeners.tls.client_ca`: cat DIR/*.pem > ca.pem",
    ),
    (
        "ciphers",
        "TLS 1.2 and 1.3 with the suites that are considered safe; they cannot be chosen",
    ),
    (
        "ciphers_tls1.3",
        "TLS 1.2 and 1.3 with the suites that are considered safe; they cannot be chosen",
    ),
    (
        "clientid_prefixes",
        "a policy says which client ids may connect: `method: Connect` with `clientIds: [\"PREFIX*\"]` (docs/authorization.md)",
    ),
    ("http_dir", "files are not served: use a web server"),
    (
        "log_dest",
        "the log goes to stderr, from where systemd or the container takes it",
    ),
    (
        "max_inflight_bytes",
        "there is a limit of messages on their way (`limits.inflight_max`), and one of bytes that wait to be written (`limits.outbound_bytes_max`)",
    ),
    ("max_qos", "every QoS may be used"),
    (
        "mount_point",
        "topics are what clients say: give a policy that keeps these clients to their prefix, and have them use it",
    ),
    ("psk_file", PSK),
    ("psk_hint", PSK),
    (
        "queue_qos0_messages",
        "messages with QoS 0 do not wait for clients that are away",
    ),
    (
        "retain_available",
        "messages may be retained; a policy cannot take that away",
    ),
    (
        "retain_expiry_interval",
        "give retained messages an expiry when they are published (Message Expiry Interval)",
    ),
    ("socket_domain", "a listener for each kind of address, as written"),
    ("tls_engine", "keys are read from files"),
    ("tls_engine_kpass_sha1", "keys are read from files"),
    (
        "upgrade_outgoing_qos",
        "a message keeps the QoS that it was published with, as MQTT says",
    ),
    (
        "use_subject_as_username",
        "the principal of a certificate is its common name (method `x509`); `authentication.x509.attributes_file` gives attributes by subject",
    ),
    (
        "use_username_as_clientid",
        "a policy keeps clients to ids of their own: `method: Connect` with `clientIds: [\"{principal.username}\"]` (docs/authorization.md)",
    ),
];

const PLUGIN: &str = "plugins are not loaded: passwords and policies are files here (docs/authentication.md), and the method `custom` asks a \
                      server of your own (docs/custom-authentication.md)";
const PSK: &str = "pre-shared keys are not spoken: use certificates, `statehold certs`, or passwords";

/// What a bridge has besides `bridge_...`, `remote_...` and `local_...`.
const OF_BRIDGES: [&str; 17] = [
    "address",
    "addresses",
    "cleansession",
    "clientid",
    "idle_timeout",
    "keepalive_interval",
    "notification_topic",
    "notifications",
    "notifications_local_only",
    "password",
    "restart_timeout",
    "round_robin",
    "start_type",
    "threshold",
    "topic",
    "try_private",
    "username",
];

/// Whether a directive is about the bridge that stands above it.
pub(super) fn is_of_bridge(name: &str) -> bool {
    let prefixes = ["bridge_", "remote_", "local_"];
    OF_BRIDGES.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a directive restricts what clients of its listener may do, in a way that has no counterpart.
pub(super) fn restricts_listener(name: &str) -> bool {
    matches!(
        name,
        "clientid_prefixes" | "mount_point" | "psk_file" | "psk_hint"
    )
}

/// Whether a directive loads what may decide who may do what.
pub(super) fn is_plugin(name: &str) -> bool {
    !name.starts_with("plugin_opt_") && (name == "auth_plugin" || name.contains("plugin"))
}

/// What to do about a directive that is not translated; `None`: nothing.
pub(super) fn about(name: &str, value: &str) -> Option<&'static str> {
    let is_default = match (name, value) {
        ("retain_available", value) => value == "true",
        ("max_qos", "2") | ("log_dest", "stderr" | "none") | (_, "false") => true,
        _ => false,
    };
    if is_default {
        return None;
    }
    let is_of_plugin = |prefix| name.strip_prefix(prefix).is_some();
    if NEEDLESS.contains(&name) || is_of_plugin("plugin_opt_") || is_of_plugin("auth_opt_") {
        return None;
    }
    let found = ADVICE.iter().find(|(directive, _)| *directive == name);
    Some(found.map_or("it is not known here, and was left out", |(_, advice)| advice))
}
