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

/// Sets a key, with these options.
fn set(server: &Configured, authority: &Authority, options: &[&str]) -> Ran {
    let ca_file = authority.ca_file();
    let trusting = ["set", "k", "v", "--cafile", &ca_file];
    server.run("mqtts", &[&trusting[..], options].concat())
}

#[test]
fn a_client_is_who_its_certificate_says() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let settings = settings(&authority.issue("localhost"), &clients, "\"x509\"", "");
    let mut server = Configured::start(&format!("{settings}[log]\nlevel = \"debug\"\n"));
    set(&server, &authority, &named(&clients, "pump").options()).expect(0);
    let line = server.logged("connected client_id=");
    assert!(line.contains("principal=pump"), "{line}");
    let without_name = clients.issue_with("valve.example", |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
    });
    set(&server, &authority, &without_name.options()).expect(0);
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
        set(server, &authority, options).expect(0);
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
    set(
        &server,
        &authority,
        &[&pump.options()[..], &with_password("wrong")].concat(),
    )
    .expect(4);
    set(&server, &authority, &[]).expect(4);
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
