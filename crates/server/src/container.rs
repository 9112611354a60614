//! Whether this process is in a container, whose loopback nobody else reaches: a port that is published there is refused all the same.

use std::path::Path;

use crate::config::ListenAddress;

/// Says so if clients from outside of a container can reach no listener.
pub(crate) fn warn_of_loopback<'a>(listeners: impl Iterator<Item = &'a ListenAddress>) {
    if !is_container(Path::new("/"), |name| std::env::var_os(name).is_some()) {
        return;
    }
    if let Some(listener) = only_loopback(listeners) {
        tracing::warn!(
            %listener,
            "listeners are reached from inside this container only: their addresses are loopback ones; \
             listen at 0.0.0.0 or [::] to let clients in from outside"
        );
    }
}

/// One of the listeners, if all of them are at loopback addresses.
fn only_loopback<'a>(listeners: impl Iterator<Item = &'a ListenAddress>) -> Option<&'a ListenAddress> {
    let mut found = None;
    for listener in listeners {
        match listener {
            ListenAddress::Ip(address) if address.ip().to_canonical().is_loopback() => found = Some(listener),
            ListenAddress::Ip(_) => return None,
            // It is reached by whoever sees its file.
            ListenAddress::Unix(_) => return None,
        }
    }
    found
}

/// What Docker, Podman, Kubernetes and systemd-nspawn leave.
fn is_container(root: &Path, has_variable: impl Fn(&str) -> bool) -> bool {
    let has_file = |name: &str| root.join(name).exists();
    has_file(".dockerenv")
        || has_file("run/.containerenv")
        || has_variable("KUBERNETES_SERVICE_HOST")
        || has_variable("container")
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn containers_are_known_by_what_they_leave() {
        let root = TempDir::new().expect("a directory");
        assert!(!is_container(root.path(), |_| false));
        assert!(is_container(root.path(), |name| name == "KUBERNETES_SERVICE_HOST"));
        std::fs::write(root.path().join(".dockerenv"), "").expect("written");
        assert!(is_container(root.path(), |_| false));
    }

    #[test]
    fn one_listener_that_is_reached_is_enough() {
        let address = |text: &str| ListenAddress::Ip(text.parse().expect("an address"));
        let (v4, v6, any) = (
            address("127.0.0.1:1883"),
            address("[::1]:1883"),
            address("0.0.0.0:1883"),
        );
        assert_eq!(only_loopback([&v4, &v6].into_iter()), Some(&v6));
        assert_eq!(only_loopback([&v4, &any].into_iter()), None);
        assert_eq!(only_loopback([].into_iter()), None);
    }
}
