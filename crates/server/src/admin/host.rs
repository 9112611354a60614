//! By which names the pages may be asked for.

use std::net::{IpAddr, Ipv6Addr};

/// Whether the value of a `Host` header is an IP address, `localhost`, or one of `names`, with or without a port.
///
/// Any address will do: a web page can give its own name the address of this machine, but it cannot make a browser send an
/// address as the host.
pub(super) fn is_ours(host: &str, names: &[String]) -> bool {
    if let Some(inner) = host.strip_prefix('[') {
        return inner.split_once(']').is_some_and(|(address, port)| {
            address.parse::<Ipv6Addr>().is_ok()
                && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
        });
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        Some(_) => return false,
        None => host,
    };
    let is_address = name.parse::<IpAddr>().is_ok();
    is_address
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_known_names_are_ours() {
        let names = ["statehold.example".to_owned()];
        for host in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:8080",
            "localhost:8080",
            "LocalHost",
            "Statehold.example:80",
        ] {
            assert!(is_ours(host, &names), "{host}");
        }
    }

    #[test]
    fn other_names_are_not() {
        for host in [
            "",
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org:8080",
            "[localhost]",
            "[::1]x",
            "localhost:x",
            "::1",
        ] {
            assert!(!is_ours(host, &[]), "{host}");
        }
    }
}
