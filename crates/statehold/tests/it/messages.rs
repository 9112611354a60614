//! `pub` and `sub`.

use crate::harness::{Server, run};

#[test]
fn messages_reach_subscribers_with_their_properties() {
    let server = Server::start();
    server.run(&["pub", "plant/ready", "yes", "--retain"]).expect(0);
    let mut sub = server.spawn(&["sub", "plant/#", "--json", "--qos", "2", "--count", "4"]);
    // With the retained message the subscription is in force.
    assert!(sub.line().contains(r#""retain":true"#));
    for qos in ["0", "1", "2"] {
        let properties = ["--content-type", "text/plain", "-D", "unit=C"];
        server
            .run(&[&["pub", "plant/1", "21.5", "--qos", qos], &properties[..]].concat())
            .expect(0);
        let message: serde_json::Value = serde_json::from_str(&sub.line()).expect("JSON");
        assert_eq!(message["payload"], "21.5");
        assert_eq!(message["qos"].to_string(), qos);
        assert_eq!(message["content_type"], "text/plain");
        assert_eq!(message["user_properties"].to_string(), r#"[["unit","C"]]"#);
    }
    assert_eq!(sub.wait(), Some(0));
}

#[test]
fn each_line_of_stdin_can_be_a_message() {
    let server = Server::start();
    server.run(&["pub", "log/ready", "yes", "--retain"]).expect(0);
    let mut sub = server.spawn(&["sub", "log/+", "-v", "--count", "3"]);
    assert_eq!(sub.line(), "log/ready yes");
    let mut publish = server.spawn(&["pub", "log/here", "--lines"]);
    for line in ["one", "two"] {
        publish.write_line(line);
        assert_eq!(sub.line(), format!("log/here {line}"));
    }
    assert_eq!(publish.wait(), Some(0));
}

#[test]
fn a_subscriber_with_a_name_gets_what_came_while_the_server_was_away() {
    let server = Server::start();
    server.run(&["pub", "t/ready", "yes", "--retain"]).expect(0);
    let mut sub = server.spawn(&["sub", "t/#", "--client-id", "me"]);
    assert_eq!(sub.line(), "yes");
    let server = server.restart();
    server.run(&["pub", "t/1", "after"]).expect(0);
    // At QoS 1 a message that was acknowledged shortly before the end may come once more.
    let first_other = std::iter::repeat_with(|| sub.line()).find(|line| line != "yes");
    assert_eq!(first_other.as_deref(), Some("after"));
}

#[test]
fn a_subscriber_with_a_name_gets_what_came_while_it_did_not_run() {
    let server = Server::start();
    server.run(&["pub", "t/ready", "yes", "--retain"]).expect(0);
    let subscribe = [
        "sub",
        "t/#",
        "--client-id",
        "me",
        "--session-expiry",
        "1h",
        "--no-retained",
        "--count",
        "2",
    ];
    server
        .run(&["sub", "t/#", "--client-id", "me", "--count", "1"])
        .expect(0);
    for number in ["1", "2"] {
        server.run(&["pub", "t/n", number, "--qos", "2"]).expect(0);
    }
    assert_eq!(server.run(&subscribe).expect(0).text(), "1\n2");
}

#[test]
fn what_cannot_be_a_topic_is_refused_before_anything_is_sent() {
    let server = Server::start();
    server.run(&["pub", "a/+", "x"]).expect(3);
    server.run(&["sub", "a/#/b"]).expect(3);
    let mut publish = server.command(&["pub", "topic"]);
    publish.args(["--property", "no equals sign", "value"]);
    run(publish).expect(3);
}
