//! The log of what took long.

use crate::configured::Configured;

const LISTENER: &str = "[[listeners]]\naddress = \"127.0.0.1:0\"\n";

#[test]
fn a_line_says_what_took_long_of_whom_and_where_the_time_went() {
    // Everything does.
    let mut server = Configured::start(&format!(
        "{LISTENER}[log]\nslow_operation = \"0ms\"\nformat = \"json\"\n"
    ));
    let arguments = ["set", "pump/7", "a value", "--client-id", "pump"];
    server.run("mqtt", &arguments).expect(0);

    let line = loop {
        let line = server.logged("a client has waited long");
        if line.contains("\"request\"") {
            break line;
        }
    };
    for part in [
        "\"set\"",
        "\"pump\"",
        "\"pump/7\"",
        "took_ms",
        "disk_ms",
        "turn_ms",
        "127.0.0.1:",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    // Values are nobody's business.
    assert!(!line.contains("a value"), "{line}");
    for operation in ["request", "connect", "subscribe", "disk", "turn"] {
        let count = format!("statehold_slow_operations_total{{operation=\"{operation}\"}}");
        assert!(server.figure(&count) >= 1.0, "{operation}");
    }
}

#[test]
fn nothing_is_slow_if_nobody_wants_to_know() {
    let server = Configured::start(&format!("{LISTENER}[log]\nslow_operation = \"none\"\n"));
    server.run("mqtt", &["set", "k", "v"]).expect(0);
    for operation in ["request", "publish", "connect", "subscribe", "disk", "turn"] {
        let count = format!("statehold_slow_operations_total{{operation=\"{operation}\"}}");
        assert_eq!(server.figure(&count), 0.0, "{operation}");
    }
    let log = server.stop();
    assert!(
        !log.contains("waited long") && !log.contains("took long"),
        "{log}"
    );
}
