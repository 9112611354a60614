use AuthenticationMethod::{Password, Scram};
use tempfile::TempDir;

use super::super::asking::{allowing_anonymous, anonymous, run, with_password};
use super::*;

/// All methods with a file, of which the one of passwords has `pump` with `pencil`.
fn methods(settings: &str) -> (TempDir, Methods) {
    let directory = TempDir::new().expect("a directory");
    let file = |name: &str, content: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, content).expect("written");
        file.display().to_string()
    };
    let golden = |name: &str| {
        let file = format!("{}/tests/golden/v1/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(file).expect("there")
    };
    let text = format!(
        "{settings}\n[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"password\", \"scram\"]\n\
         [authentication.scram]\nfile = \"{}\"\n[authentication.password]\nfile = \"{}\"\n",
        file("clients.scram", &golden("clients.scram")),
        file("clients.passwd", &golden("clients.passwd")),
    );
    let settings = file("statehold.toml", &text);
    let config = Config::load(Some(settings.as_ref()), &crate::config::Overrides::default());
    let methods = Methods::load(&config.expect("right")).expect("right");
    (directory, methods.expect("there are some"))
}

/// As whom a client is let in, or how it is refused.
type Said = Result<Option<Text>, ReasonCode>;

/// What a client is told, and what is counted.
fn outcome(methods: &Methods, asked: &Asked) -> (Said, Option<(&'static str, Cause)>) {
    let outcome = run(methods.answer(asked));
    let said = match outcome.answer {
        Answer::Accept { principal, .. } => Ok(principal.map(|principal| principal.name)),
        Answer::Refuse { reason, .. } => Err(reason),
        Answer::Continue { .. } => panic!("asked for more"),
    };
    (said, outcome.failed)
}

#[test]
fn the_method_that_the_credentials_are_for_decides() {
    let (_directory, methods) = methods("");
    for order in [[Password, Scram], [Scram, Password]] {
        let pump = Text::from_static("pump 7");
        let right = with_password(&order, "pump 7", b"pencil");
        assert_eq!(outcome(&methods, &right), (Ok(Some(pump)), None));
        let wrong = (
            Err(ReasonCode::BadUserNameOrPassword),
            Some(("password", Cause::Credentials)),
        );
        assert_eq!(
            outcome(&methods, &with_password(&order, "pump 7", b"brush")),
            wrong
        );
        assert_eq!(
            outcome(&methods, &with_password(&order, "nobody", b"pencil")),
            wrong
        );
    }
}

#[test]
fn what_is_of_no_method_is_refused_and_only_nothing_at_all_is_anonymous() {
    let (_directory, methods) = methods("");
    let unsupported = (Err(ReasonCode::NotAuthorized), Some(("none", Cause::Unsupported)));
    let with_name = || with_password(&[Scram], "pump", b"pencil");
    assert_eq!(outcome(&methods, &with_name()), unsupported);
    assert_eq!(outcome(&methods, &allowing_anonymous(with_name())), unsupported);
    assert_eq!(
        outcome(&methods, &anonymous(&[Scram])),
        (Err(ReasonCode::NotAuthorized), Some(("none", Cause::Missing)))
    );
    assert_eq!(
        outcome(&methods, &allowing_anonymous(anonymous(&[Scram, Password]))),
        (Ok(None), None)
    );
    let mut other = anonymous(&[Scram]);
    other.question.method = Some(Text::from_static("GS2-KRB5"));
    assert_eq!(
        outcome(&methods, &other),
        (
            Err(ReasonCode::BadAuthenticationMethod),
            Some(("none", Cause::Unsupported))
        )
    );
}

#[test]
fn failed_attempts_are_counted_whatever_the_method() {
    let (_directory, methods) = methods("[authentication]\nfailures_max = 2\n");
    let mut of_scram = anonymous(&[Scram]);
    of_scram.question.method = Some(Text::from_static("SCRAM-SHA-256"));
    let wrong = (
        Err(ReasonCode::NotAuthorized),
        Some(("scram", Cause::Credentials)),
    );
    assert_eq!(outcome(&methods, &of_scram), wrong);
    let of_password = with_password(&[Password], "pump 7", b"brush");
    assert!(outcome(&methods, &of_password).0.is_err());
    for (name, asked) in [("scram", of_scram), ("password", of_password)] {
        let too_many = (
            Err(ReasonCode::ConnectionRateExceeded),
            Some((name, Cause::Attempts)),
        );
        assert_eq!(outcome(&methods, &asked), too_many);
    }
    let mut elsewhere = with_password(&[Password], "pump 7", b"pencil");
    elsewhere.peer = crate::client_address::ClientAddress::Ip(([192, 0, 2, 2], 1).into());
    assert!(outcome(&methods, &elsewhere).0.is_ok());
}

#[test]
fn a_principal_is_of_its_method_and_who_shows_to_be_another_has_failed() {
    let (_directory, methods) = methods("[authentication]\nfailures_max = 1\n");
    let principal = |asked: &Asked| match run(methods.answer(asked)).answer {
        Answer::Accept { principal, .. } => principal.expect("somebody"),
        other => panic!("{other:?}"),
    };
    let mut asked = with_password(&[Password], "pump 7", b"pencil");
    let pump = principal(&asked);
    assert_eq!((&*pump.method, &*pump.name), ("password", "pump 7"));
    asked.question.principal = Some(pump.clone());
    assert_eq!(principal(&asked), pump);
    let another = (
        Err(ReasonCode::NotAuthorized),
        Some(("password", Cause::Credentials)),
    );
    asked.question.principal = Some(pump.by_method(Text::from_static("scram")));
    assert_eq!(
        outcome(&methods, &asked),
        another,
        "the same name of another method"
    );
    asked.question.principal = None;
    let new = with_password(&[Password], "pump 7", b"brush");
    let too_many = Some(("password", Cause::Attempts));
    assert_eq!(
        outcome(&methods, &new).1,
        too_many,
        "it has counted as a failed attempt"
    );
}

#[test]
fn a_method_with_many_under_way_refuses_one_more_and_leaves_places_to_others() {
    let (_directory, methods) = methods("[limits]\nstrangers_max = 2\n");
    let entry = methods.all.iter().find(|entry| entry.name == Password);
    let (now, elsewhere) = (clock::instant(), SourceNetwork::Unix(None));
    let under_way = entry.map(|entry| entry.under_way.enter(elsewhere, now, now + methods.within));
    assert!(under_way.as_ref().is_some_and(Result::is_ok));
    let asked = with_password(&[Password], "pump 7", b"pencil");
    let busy = (Err(ReasonCode::ServerBusy), Some(("password", Cause::Busy)));
    assert_eq!(outcome(&methods, &asked), busy);
    let unsupported = outcome(&methods, &with_password(&[Scram], "pump 7", b"pencil"));
    assert_eq!(unsupported.1, Some(("none", Cause::Unsupported)));
    drop(under_way);
    assert!(outcome(&methods, &asked).0.is_ok());
}
