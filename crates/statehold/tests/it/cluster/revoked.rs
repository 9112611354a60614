//! Certificates of nodes that are revoked, and lists that are of no use.

use rcgen::SerialNumber;

use super::member::{Member, Place};
use crate::authority::{Authority, Identity};
use crate::harness::{run, statehold};

/// Three nodes that are not running yet, their authority, and its list.
struct Trusting {
    place: Place,
    authority: Authority,
    identities: Vec<Identity>,
    list: String,
}

impl Trusting {
    fn new() -> Self {
        let mut place = Place::new();
        place.options.clear();
        let authority = Authority::new();
        let list = authority.revoke(&[]);
        let identities = (10..13).map(|serial| issue(&authority, serial)).collect();
        Self {
            place,
            authority,
            identities,
            list,
        }
    }

    fn start(&self, node: u16) -> Member {
        let identity = &self.identities[usize::from(node)];
        let [_, cert, _, key] = identity.options();
        let mut command = self.place.command(node, 3);
        command.args(["--peer-cert", cert, "--peer-key", key]).args([
            "--peer-ca",
            &self.authority.ca_file(),
            "--peer-crl",
            &self.list,
        ]);
        Member::spawn(command)
    }
}

fn issue(authority: &Authority, serial: u64) -> Identity {
    authority.issue_with(&format!("node-{serial}"), |params| {
        params.serial_number = Some(SerialNumber::from(serial));
    })
}

#[test]
fn a_node_whose_certificate_is_revoked_is_hung_up_on_and_stays_outside() {
    let trusting = Trusting::new();
    let mut members: Vec<_> = (0..3).map(|node| trusting.start(node)).collect();
    members.iter_mut().for_each(Member::wait_ready);
    members[2].set("k", "before");
    let revoked = trusting.place.peer(2);

    trusting.authority.revoke(&[12]);
    members[..2].iter().for_each(|member| member.signal("HUP"));
    for member in &mut members[..2] {
        member.logged(&["parted with a node", "the node's certificate is revoked"]);
        member.logged(&["lost the connection to a node", &revoked]);
    }
    // It is dialled in vain, and what it dials itself is refused.
    members[0].logged(&[
        "no connection to a node",
        &revoked,
        "the node's certificate is revoked",
    ]);
    members[1].logged(&[
        "refused a connection at cluster.peer_listen",
        "the node's certificate is revoked",
    ]);
    members[2].logged(&["the other node says that this node's certificate is revoked"]);
    members[0].set("k", "without it");
    assert_eq!(members[1].get("k"), "without it");
    assert!(members[0].figure("statehold_peer_connections_refused_total{cause=\"tls\"}") >= 2.0);

    issue(&trusting.authority, 13).replace(&trusting.identities[2]);
    members[2].signal("HUP");
    for member in &mut members[..2] {
        member.logged(&["connected to a node", &revoked]);
    }
    assert_eq!(members[2].get("k"), "without it");
}

#[test]
fn a_list_that_has_expired_is_named_and_lets_nobody_in() {
    let trusting = Trusting::new();
    trusting.authority.expired_list();
    let (mut one, mut two) = (trusting.start(0), trusting.start(1));
    for member in [&mut one, &mut two] {
        member.logged(&["a list of revoked certificates has expired", &trusting.list]);
    }
    one.logged(&["a list of cluster.tls.crl has expired"]);
    two.logged(&["a list of cluster.tls.crl has expired"]);
    assert!(!one.is_ready() && !two.is_ready());
}

#[test]
fn a_list_that_cannot_be_read_is_named() {
    let trusting = Trusting::new();
    let [_, cert, _, key] = trusting.identities[0].options();
    let tls = [
        "--peer-cert",
        cert,
        "--peer-key",
        key,
        "--peer-ca",
        &trusting.authority.ca_file(),
    ];
    let refused = |tls: &[&str], list: &str, expected: &str| {
        let mut command = trusting.place.command(0, 3);
        command.args(tls).args(["--peer-crl", list]);
        let ran = run(command);
        assert_ne!(ran.code, Some(0));
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    };
    refused(
        &tls,
        "/nowhere/list.pem",
        "`cluster.tls.crl[0]`: cannot read /nowhere/list.pem",
    );
    refused(&tls, cert, "contains no list of revoked certificates");
    let both = format!("{},{cert}", trusting.list);
    refused(&tls, &both, "`cluster.tls.crl[1]`");
    refused(&[], &trusting.list, "`cluster.tls`");
    let help = run(statehold(&["serve", "--help"])).expect(0);
    assert!(help.text().contains("--peer-crl"), "{}", help.text());
}
