//! Certificates of clients that are not good, and those that were and are not any more.

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, SerialNumber, date_time_ymd};

use crate::authority::{Authority, Identity};
use crate::configured::Configured;
use crate::harness::{Ran, admin_page};

/// A server for clients of an authority, and how they trust it.
struct Mutual {
    server: Configured,
    authority: Authority,
}

impl Mutual {
    fn start(further: &str) -> Self {
        Self::start_with(Authority::new(), further)
    }

    fn start_with(authority: Authority, further: &str) -> Self {
        let settings = format!(
            "[[listeners]]\naddress = \"127.0.0.1:0\"\n[listeners.tls]\n{}client_ca = \"{}\"\n{further}",
            authority.issue("localhost").settings(),
            authority.ca_file(),
        );
        let server = Configured::start(&settings);
        Self { server, authority }
    }

    fn set(&self, options: &[&str]) -> Ran {
        self.authority.set(&self.server, options)
    }

    /// The client is refused in the handshake, and the log says why.
    fn refuses(&mut self, client: &Identity, why: &str) {
        self.set(&client.options()).expect(4);
        let line = self.server.logged("rejected handshake");
        assert!(line.contains(why), "{line} does not say {why}");
        assert!(line.contains("peer=127.0.0.1"), "{line}");
    }
}

#[test]
fn a_certificate_that_is_not_good_is_refused_with_its_reason_in_the_log() {
    let authority = Authority::new();
    let list = authority.revoke(&[7]);
    let mut mutual = Mutual::start_with(authority, &format!("crl = [\"{list}\"]\n"));
    let issue =
        |mutual: &Mutual, change: fn(&mut CertificateParams)| mutual.authority.issue_with("pump", change);

    mutual.set(&mutual.authority.issue("pump").options()).expect(0);
    let stranger = Authority::new();
    mutual.refuses(&stranger.issue("pump"), "of no authority in client_ca");
    mutual.refuses(&stranger.self_signed("alone"), "of no authority in client_ca");
    let client = issue(&mutual, |params| params.not_after = date_time_ymd(2_020, 1, 1));
    mutual.refuses(&client, "certificate expired");
    let client = issue(&mutual, |params| params.not_before = date_time_ymd(4_000, 1, 1));
    mutual.refuses(&client, "certificate not valid yet");
    let client = issue(&mutual, |params| {
        params.serial_number = Some(SerialNumber::from(7));
    });
    mutual.refuses(&client, "the client's certificate is revoked");
    let client = issue(&mutual, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    mutual.refuses(&client, "does not allow extended key usage");
    let failed = mutual.server.figure("statehold_handshakes_failed_total");
    assert!((failed - 6.0).abs() < f64::EPSILON, "{failed}");
}

#[test]
fn a_small_key_is_refused() {
    let mut mutual = Mutual::start("client_ec_bits_min = 384\n");
    let client = mutual.authority.issue("pump");
    mutual.refuses(&client, "is too small: an elliptic curve with 256 bits");
}

#[test]
fn more_certificates_than_a_chain_needs_are_refused() {
    let mut mutual = Mutual::start("");
    let client = mutual.authority.issue("pump");
    let certificate = std::fs::read_to_string(&client.cert).expect("written");
    std::fs::write(&client.cert, certificate.repeat(11)).expect("written");
    mutual.refuses(&client, "the client sent 11 certificates, more than 10");
    // So many that they are not even looked at.
    std::fs::write(&client.cert, certificate.repeat(500)).expect("written");
    mutual.refuses(&client, "");
    mutual.set(&mutual.authority.issue("pump").options()).expect(0);
}

#[test]
fn who_is_revoked_is_disconnected_and_others_stay() {
    let authority = Authority::new();
    let list = authority.revoke(&[]);
    let mut mutual = Mutual::start_with(authority, &format!("crl = [\"{list}\"]\n"));
    let ca_file = mutual.authority.ca_file();
    let watch = |mutual: &Mutual, serial: u64| {
        let name = format!("pump-{serial}");
        let client = mutual.authority.issue_with(&name, |params| {
            params.serial_number = Some(SerialNumber::from(serial));
        });
        let options = client.options();
        let words = [
            "watch",
            "k",
            "--initial",
            "--cafile",
            &ca_file,
            "--client-id",
            &name,
        ];
        let mut watching = mutual.server.spawn("mqtts", &[&words[..], &options].concat());
        assert!(watching.line().starts_with("set k "));
        watching
    };
    mutual.set(&mutual.authority.issue("setter").options()).expect(0);
    let _revoked = watch(&mutual, 7);
    let mut other = watch(&mutual, 8);

    mutual.authority.revoke(&[7]);
    mutual.server.signal("HUP");
    let line = mutual.server.logged("closed connection");
    assert!(line.contains("client_id=pump-7"), "{line}");
    assert!(line.contains("the client's certificate is revoked"), "{line}");
    // It comes back, as its command does, and is not let in.
    let line = mutual.server.logged("rejected handshake");
    assert!(line.contains("the client's certificate is revoked"), "{line}");
    mutual.set(&mutual.authority.issue("setter").options()).expect(0);
    assert!(other.line().starts_with("set k "));
}

#[test]
fn a_new_authority_is_taken_and_the_clients_of_the_old_one_have_to_go() {
    let mut mutual = Mutual::start("");
    let old = mutual.authority.issue("old");
    mutual.set(&old.options()).expect(0);
    let ca_file = mutual.authority.ca_file();
    let words = [
        "watch",
        "k",
        "--initial",
        "--cafile",
        &ca_file,
        "--client-id",
        "old",
    ];
    let mut watching = mutual
        .server
        .spawn("mqtts", &[&words[..], &old.options()].concat());
    assert!(watching.line().starts_with("set k "));

    let new = Authority::new();
    let trusted = std::fs::read(&ca_file).expect("written");
    let kept = Identity {
        cert: old.cert.with_extension("kept"),
        key: old.key.clone(),
    };
    std::fs::write(&kept.cert, trusted).expect("written");
    std::fs::copy(new.ca_file(), &ca_file).expect("copied");
    let line = mutual.server.logged("closed connection");
    assert!(line.contains("of no authority in client_ca"), "{line}");
    let cafile = kept.cert.to_str().expect("text").to_owned();
    let set = |options: &[&str]| {
        let command = ["set", "k", "v", "--cafile", &cafile];
        mutual.server.run("mqtts", &[&command[..], options].concat())
    };
    set(&new.issue("new").options()).expect(0);
    set(&old.options()).expect(4);
}

#[test]
fn what_expires_is_in_the_figures_and_said_at_the_start() {
    let authority = Authority::new();
    let identity = authority.issue_with("localhost", |params| {
        params.not_after = date_time_ymd(2_027, 6, 1);
    });
    let settings = |further: &str| {
        format!(
            "[[listeners]]\naddress = \"127.0.0.1:0\"\n[listeners.tls]\n{}{further}",
            identity.settings()
        )
    };
    let mut server = Configured::start(&settings("expiry_warning = \"36500d\"\n"));
    let line = server.logged("a certificate expires soon");
    assert!(line.contains("listeners[0].tls.cert"), "{line}");
    let page = admin_page(server.at("admin"), "/metrics");
    let figure = page
        .lines()
        .find(|line| line.starts_with("statehold_certificate_expiry_timestamp_seconds{"));
    let figure = figure.unwrap_or_else(|| panic!("{page}"));
    assert!(figure.contains("setting=\"listeners[0].tls.cert\""), "{figure}");
    assert!(figure.ends_with(" 1811808000"), "{figure}");

    let other = Authority::new();
    let expired = other.issue_with("localhost", |params| {
        params.not_after = date_time_ymd(2_020, 1, 1);
    });
    expired.replace(&identity);
    let mut server = Configured::start(&settings(""));
    server.logged("a certificate has expired");
}

#[test]
fn a_key_that_everybody_can_read_is_said() {
    use std::os::unix::fs::PermissionsExt;
    let authority = Authority::new();
    let identity = authority.issue("localhost");
    let readable = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&identity.key, readable).expect("ours");
    let settings = format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n[listeners.tls]\n{}",
        identity.settings()
    );
    let line =
        Configured::start(&settings).logged("listeners[0].tls.key`: every user of this machine can read");
    assert!(line.contains("localhost.key"), "{line}");
}

#[test]
fn a_client_without_a_certificate_goes_on_where_it_is_optional() {
    let mut mutual = Mutual::start("client_cert = \"optional\"\n");
    mutual.set(&[]).expect(0);
    mutual.set(&mutual.authority.issue("pump").options()).expect(0);
    let stranger = Authority::new();
    mutual.refuses(&stranger.issue("pump"), "of no authority in client_ca");
}
