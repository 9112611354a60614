//! The example of RFC 7677, and what is wrong with messages that are nearly right.

use std::path::Path;

use super::*;

const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const SERVER_FIRST: &str =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SERVER_LAST: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

fn secrets() -> Secrets {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1/clients.scram");
    Secrets::read(Path::new(file)).expect("right")
}

fn begin(message: &str) -> Option<(String, String)> {
    match Scram::new().first(&secrets(), message, SERVER_NONCE)? {
        Answer::Continue { data, continuation } => {
            let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).expect("text");
            Some((text(data.expect("there")), text(continuation)))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_example_of_rfc_7677_is_understood_and_proved() {
    let (server_first, continuation) = begin(FIRST).expect("right");
    assert_eq!(server_first, SERVER_FIRST);
    let accepted = Answer::Accept {
        principal: Some(Principal::named(Text::from_static("user"))),
        data: Some(Bytes::from_static(SERVER_LAST.as_bytes())),
        expires_in: None,
    };
    assert_eq!(last(&secrets(), &continuation, LAST), Some(accepted));
}

#[test]
fn a_last_message_that_is_not_quite_right_proves_nothing() {
    let (_, continuation) = begin(FIRST).expect("right");
    for (from, to) in [
        ("p=dHz", "p=dHy"),
        ("p=dHzb", "p="),
        (",p=", ",q="),
        ("c=biws", "c=eSws"),
        ("c=biws,", ""),
        ("$k0", "$k1"),
        ("$k0", "$k0,x=1"),
    ] {
        assert!(LAST.contains(from));
        assert_eq!(
            last(&secrets(), &continuation, &LAST.replace(from, to)),
            None,
            "{to}"
        );
    }
    assert_eq!(last(&secrets(), &continuation, ""), None);
    assert_eq!(
        last(&Secrets::default(), &continuation, LAST),
        None,
        "the client was removed"
    );
}

#[test]
fn a_first_message_that_asks_for_what_is_not_offered_is_refused() {
    for message in [
        "",
        "n,",
        "p=tls-exporter,,n=user,r=x",
        "n,a=other,n=user,r=x",
        "n,,m=new,n=user,r=x",
        "n,,n=,r=x",
        "n,,n=user,r=",
        "n,,n=user,r=a b",
        "n,,n=us=er,r=x",
        "n,,n=user",
        "\u{e9}\u{e9},,n=user,r=x",
    ] {
        assert_eq!(begin(message), None, "{message}");
    }
    let long = "x".repeat(PART_BYTES_MAX + 1);
    assert_eq!(begin(&format!("n,,n={long},r=x")), None);
    assert_eq!(begin(&format!("n,,n=user,r={long}")), None);
    assert!(begin("y,,n=user,r=x,later=1").is_some());
}

#[test]
fn who_is_not_known_is_answered_like_who_is() {
    let scram = Scram::new();
    let ask = |name: &str| {
        let answer = scram.first(&secrets(), &format!("n,,n={name},r={NONCE}"), SERVER_NONCE);
        let Some(Answer::Continue { data, .. }) = answer else {
            panic!("{answer:?}")
        };
        data.expect("there")
    };
    let nobody = ask("nobody");
    assert_eq!(nobody.len(), SERVER_FIRST.len(), "{nobody:?}");
    assert_eq!(ask("nobody"), nobody, "the salt stays the same");
    assert_ne!(ask("another"), nobody);
}

#[test]
fn names_are_unescaped() {
    assert_eq!(unescape("a=2Cb=3Dc").as_deref(), Some("a,b=c"));
    for wrong in ["=", "a=2", "a=2c", "a=41", "=\u{e9}"] {
        assert_eq!(unescape(wrong), None, "{wrong}");
    }
}
