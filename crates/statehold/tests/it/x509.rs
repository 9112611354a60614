//! Listeners whose clients say who they are by their certificates.

use rcgen::DnType;

use crate::authority::{Authority, Identity};
use crate::configured::Configured;
use crate::harness::Ran;

/// A listener with these methods, and `further` in its table of TLS.
fn settings(server: &Identity, clients: &Authority, methods: &str, further: &str) -> String {
    format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [{methods}]\n[listeners.tls]\n{}client_ca = \"{}\"\n{further}\n",
        server.settings(),
        clients.ca_file(),
    )
}

/// A certificate with a common name.
fn named(authority: &Authority, name: &str) -> Identity {
    authority.issue_with(name, |params| {
        params.distinguished_name.push(DnType::CommonName, name);
    })
}

#[test]
fn a_client_is_who_its_certificate_says() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let settings = settings(&authority.issue("localhost"), &clients, "\"x509\"", "");
    let mut server = Configured::start(&format!("{settings}[log]\nlevel = \"debug\"\n"));
    authority
        .set(&server, &named(&clients, "pump").options())
        .expect(0);
    let line = server.logged("connected client_id=");
    assert!(line.contains("principal=pump"), "{line}");
    let without_name = clients.issue_with("valve.example", |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
    });
    authority.set(&server, &without_name.options()).expect(0);
    let line = server.logged("connected client_id=");
    assert!(line.contains("principal=valve.example"), "{line}");
}

#[test]
fn where_a_certificate_may_be_left_out_a_password_does_as_well() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let file = authority.ca_file().replace("ca.pem", "clients.passwd");
    let mut passwd = crate::harness::spawn(crate::harness::statehold(&["passwd", &file, "valve"]));
    passwd.write_line("brush");
    assert_eq!(passwd.wait(), Some(0));
    let settings = settings(
        &authority.issue("localhost"),
        &clients,
        "\"password\", \"x509\"",
        "client_cert = \"optional\"",
    );
    let mut server = Configured::start(&format!(
        "{settings}[authentication.password]\nfile = \"{file}\"\n[log]\nlevel = \"debug\"\n"
    ));
    let pump = named(&clients, "pump");
    let with_password = |password: &'static str| ["--username", "valve", "--password", password];
    let connected = |server: &mut Configured, options: &[&str], principal: &str| {
        authority.set(server, options).expect(0);
        let line = server.logged("connected client_id=");
        assert!(line.contains(&format!("principal={principal}")), "{line}");
    };
    connected(&mut server, &pump.options(), "pump");
    connected(&mut server, &with_password("brush"), "valve");
    connected(
        &mut server,
        &[&pump.options()[..], &with_password("brush")].concat(),
        "valve",
    );
    let wrong = [&pump.options()[..], &with_password("wrong")].concat();
    authority.set(&server, &wrong).expect(2);
    authority.set(&server, &[]).expect(2);
}

#[test]
fn what_the_method_needs_is_named_when_the_server_starts() {
    let authority = Authority::new();
    let identity = authority.issue("localhost");
    let told = Configured::refused(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"x509\"]\n[listeners.tls]\n{}",
        identity.settings()
    ));
    assert!(told.stderr.contains("needs `tls.client_ca`"), "{told:?}");
    let file = authority.ca_file().replace("ca.pem", "x509.toml");
    std::fs::write(&file, "[fan]\nsubject = \"fan\"\nattributes = {}\n").expect("written");
    let settings = settings(&identity, &authority, "\"x509\"", "");
    let told = Configured::refused(&format!(
        "{settings}[authentication.x509]\nattributes_file = \"{file}\"\n"
    ));
    assert!(
        told.stderr.contains("`fan.subject`: write for example"),
        "{told:?}"
    );
}

/// Publishes to the topic of a site as the client with this certificate.
fn publish(server: &Configured, authority: &Authority, identity: &Identity, topic: &str) -> Ran {
    let ca_file = authority.ca_file();
    let publishing = ["pub", topic, "v", "--qos", "1", "--cafile", &ca_file];
    server.run("mqtts", &[&publishing[..], &identity.options()].concat())
}

#[test]
fn attributes_of_a_subject_decide_what_its_client_may_do() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let file = |name: &str, content: &str| {
        let file = authority.ca_file().replace("ca.pem", name);
        std::fs::write(&file, content).expect("written");
        file
    };
    let subject = |site: &str| {
        format!("[fan]\nsubject = \"CN = fan, O = Contoso\"\nattributes = {{ site = \"{site}\" }}\n")
    };
    let attributes_file = file("x509.toml", &subject("north"));
    let policy = file(
        "policy.yaml",
        "rules:\n- principals:\n    attributes:\n    - site: north\n    - site: south\n  brokerResources:\n  - method: Connect\n  - method: Publish\n    topics: [\"sites/{principal.attributes.site}/#\"]\n",
    );
    let listener = settings(&authority.issue("localhost"), &clients, "\"x509\"", "")
        .replace("authentication =", "authorization = \"sites\"\nauthentication =");
    let mut server = Configured::start(&format!(
        "{listener}[authentication.x509]\nattributes_file = \"{attributes_file}\"\n[authorization.sites]\nfile = \"{policy}\"\n"
    ));
    let fan = clients.issue_with("fan", |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "Contoso");
        params.distinguished_name.push(DnType::CommonName, "fan");
    });
    publish(&server, &authority, &fan, "sites/north/fan").expect(0);
    assert_ne!(
        publish(&server, &authority, &fan, "sites/south/fan").code,
        Some(0)
    );
    let other = named(&clients, "other");
    assert_ne!(
        publish(&server, &authority, &other, "sites/north/fan").code,
        Some(0)
    );

    file("x509.toml", &subject("south"));
    server.signal("HUP");
    server.logged("took the file of authentication.x509.attributes_file anew");
    publish(&server, &authority, &fan, "sites/south/fan").expect(0);
}
