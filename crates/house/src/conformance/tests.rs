//! Lists and sources that contradict each other.

use super::*;

const LIST: &str = r#"
["Group"]
"1.1.1-1" = { binds = "server", says = "a" }
"1.1.1-2" = { binds = "both", says = "b", planned = "something" }
"1.1.1-3" = { binds = "client", says = "c" }
"1.1.1-4" = { binds = "server", says = "d", code = ["broker/src/a.rs:a"], tests = ["broker/src/a.rs:b"] }
"#;

fn list() -> Specification {
    Specification::parse("list.toml", Version::V5, LIST).unwrap()
}

fn findings(source: &str) -> Vec<String> {
    let (specification, sources) = (list(), [Source::parse("crates/broker/src/a.rs", source)]);
    let specifications = [specification];
    let evidence = evidence(&specifications, &sources, &[]);
    let mut findings = check_statements(&specifications[0], &evidence, &sources);
    findings.extend(check_citations(&specifications, &sources, &[]));
    findings.iter().map(ToString::to_string).collect()
}

const WHOLE: &str = "// The first.\nfn a() {\n    // [MQTT-1.1.1-1]\n}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn b() {}\n    \
                     #[test]\n    fn mqtt_1_1_1_1_c() {}\n}\n";

#[test]
fn a_statement_with_code_and_a_test_is_in_order() {
    assert_eq!(findings(WHOLE), [""; 0]);
}

#[test]
fn without_a_citation_there_is_no_code_and_no_test() {
    let without_code = WHOLE.replace("// [MQTT-1.1.1-1]", "");
    assert_eq!(
        findings(&without_code),
        ["list.toml: MQTT-1.1.1-1: no code is said to satisfy it"]
    );
    let without_test = WHOLE.replace("mqtt_1_1_1_1_c", "c");
    let expected = "list.toml: MQTT-1.1.1-1: no test shows it, and nothing says why";
    assert_eq!(findings(&without_test), [expected]);
}

#[test]
fn a_function_with_the_name_of_a_statement_must_be_a_test() {
    let without_attribute = WHOLE.replace("#[test]\n    fn mqtt", "fn mqtt");
    assert_eq!(findings(&without_attribute).len(), 1);
}

#[test]
fn a_place_that_is_not_there_is_found() {
    let renamed = WHOLE.replace("fn b()", "fn bb()");
    assert_eq!(
        findings(&renamed),
        ["list.toml: MQTT-1.1.1-4: there is no broker/src/a.rs:b"]
    );
}

#[test]
fn what_is_planned_has_no_code_and_tests() {
    let built = WHOLE.replace("// [MQTT-1.1.1-1]", "// [MQTT-1.1.1-1] [MQTT-1.1.1-2]");
    let built = built.replace("fn b() {}", "fn b() { // [MQTT-1.1.1-2]\n }");
    let expected = "list.toml: MQTT-1.1.1-2: it has code and tests, so it is no longer planned: something";
    assert_eq!(findings(&built), [expected]);
}

#[test]
fn a_statement_that_does_not_exist_is_not_cited() {
    let wrong = WHOLE.replace(
        "// The first.",
        "// [MQTT-1.1.1-5] [MQTT-1.1.1-1] of version 3.1.1",
    );
    let expected = [
        "crates/broker/src/a.rs:1: version 3.1.1 has no MQTT-1.1.1-5",
        "crates/broker/src/a.rs:1: version 3.1.1 has no MQTT-1.1.1-1",
    ];
    assert_eq!(findings(&wrong), expected);
}

#[test]
fn a_statement_is_not_the_same_as_one_without_tests() {
    let same = LIST.replace(r#"says = "a""#, r#"says = "a", same_as = "1.1.1-3""#);
    let (specification, sources) = (
        Specification::parse("list.toml", Version::V311, &same).unwrap(),
        [Source::parse("crates/broker/src/a.rs", WHOLE)],
    );
    let specifications = [specification];
    let evidence = evidence(&specifications, &sources, &[]);
    let findings = check_statements(&specifications[0], &evidence, &sources);
    let expected = "list.toml: MQTT-1.1.1-1: MQTT-1.1.1-3 of version 5.0 is not tested itself";
    assert_eq!(findings[0].to_string(), expected);
}

#[test]
fn the_page_counts_what_is_tested() {
    let sources = [Source::parse("crates/broker/src/a.rs", WHOLE)];
    let specifications = [list()];
    let page = page(&specifications, &evidence(&specifications, &sources, &[]));
    for line in [
        "| statements | 4 |",
        "| **that bind the server** | 3 |",
        "| of these, tested | 2 |",
        "| planned | 1 |",
        "| MQTT-1.1.1-1 | a | tested | `broker/src/a.rs`: a | `broker/src/a.rs`: mqtt_1_1_1_1_c |",
        "| MQTT-1.1.1-3 | c | binds clients |  |  |",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}

#[test]
fn a_field_that_is_not_known_is_refused() {
    let wrong = LIST.replace("planned =", "plan =");
    assert!(Specification::parse("list.toml", Version::V5, &wrong).is_err());
}
