//! Addresses of the settings that would take each other's place.

use std::net::SocketAddr;

use super::file::Problem;
use super::{Config, ListenAddress};

/// Names each address that one before it has taken already.
pub(super) fn violations(config: &Config, problems: &mut Vec<Problem>) {
    let mut taken: Vec<(String, ListenAddress)> = Vec::new();
    for (index, listener) in config.listeners.iter().enumerate() {
        let setting = format!("listeners[{index}].address");
        take(&mut taken, setting, listener.address.clone(), problems);
    }
    if let Some(address) = config.cluster.as_ref().and_then(|cluster| cluster.peer_listen) {
        take(
            &mut taken,
            "cluster.peer_listen".to_owned(),
            address.into(),
            problems,
        );
    }
    let address = config.admin.address.into();
    take(&mut taken, "admin.address".to_owned(), address, problems);
}

fn take(
    taken: &mut Vec<(String, ListenAddress)>,
    setting: String,
    address: ListenAddress,
    problems: &mut Vec<Problem>,
) {
    match taken
        .iter()
        .find(|(_, other)| exclude_each_other(other, &address))
    {
        Some((owner, other)) => {
            let why = format!("{address} is taken by `{owner}` = {other}: each needs an address of its own");
            problems.push(Problem::new(&setting, why));
        }
        None => taken.push((setting, address)),
    }
}

/// Whether only one of both can be bound. Port 0 is another port each time.
fn exclude_each_other(one: &ListenAddress, other: &ListenAddress) -> bool {
    match (one, other) {
        (ListenAddress::Ip(one), ListenAddress::Ip(other)) => {
            one.port() == other.port() && one.port() != 0 && overlap(*one, *other)
        }
        (ListenAddress::Unix(one), ListenAddress::Unix(other)) => one == other,
        _ => false,
    }
}

/// All addresses of a family include each one of it. Sockets of IPv6 take nothing of IPv4.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (one, other) = (one.ip(), other.ip());
    let includes = one == other || one.is_unspecified() || other.is_unspecified();
    one.is_ipv4() == other.is_ipv4() && includes
}
