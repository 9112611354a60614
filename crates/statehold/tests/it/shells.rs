//! What is made of the command line for shells, for `man` and for those who watch.

use tempfile::TempDir;

use crate::harness::{Server, run, statehold};

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = run(statehold(&["completion", shell])).expect(0);
        for command in ["clients", "retained", "disconnect", "serve"] {
            assert!(script.text().contains(command), "{shell}: {command}");
        }
    }
    run(statehold(&["completion", "tcsh"])).expect(3);
}

#[test]
fn manual_pages_are_written_one_for_each_command() {
    let directory = TempDir::new().expect("a directory");
    let pages = directory.path().join("man");
    run(statehold(&["man", "--dir", pages.to_str().expect("text")])).expect(0);
    for (page, part) in [
        ("statehold.1", "replicated state store"),
        ("statehold-serve.1", "peer"),
        ("statehold-clients-disconnect.1", "reason"),
    ] {
        let page = std::fs::read_to_string(pages.join(page)).expect(page);
        assert!(page.contains(".TH") && page.contains(part), "{page}");
    }
}

#[test]
fn a_node_is_watched() {
    let server = Server::start();
    let admin = format!("http://{}", server.admin);
    let once = ["top", "--once", "--interval", "100ms", "--admin", &admin];
    let frame = run(statehold(&once)).expect(0);
    assert!(frame.text().contains("RUNNING  ready"), "{frame:?}");
    assert!(frame.text().contains("messages in"), "{frame:?}");
    let frame = run(statehold(&[&once[..], &["--json"]].concat()))
        .expect(0)
        .json();
    assert_eq!(frame["now"]["connections"], 0.0);
    assert!(frame["per_second"]["messages_in"].is_number(), "{frame}");
    run(statehold(&["top", "--once", "--admin", "http://127.0.0.1:1"])).expect(4);
}
