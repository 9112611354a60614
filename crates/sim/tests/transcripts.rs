//! Plays every transcript of `testdata`. `UPDATE=1 cargo test -p sim` rewrites them; read the diff as a conversation.

#[path = "it/clock.rs"]
mod clock;

use std::path::Path;

use self::clock::now;

#[test]
fn every_transcript_is_what_the_server_says() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata");
    let mut differing = Vec::new();
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "there are transcripts");
    for path in paths {
        let expected = std::fs::read_to_string(&path).unwrap();
        let only = std::env::var("ONLY").unwrap_or_default();
        if !path.display().to_string().contains(&only) { continue; }
        let played = std::panic::catch_unwind(|| sim::transcript::play(&expected, now()));
        let Ok(played) = played else { differing.push(format!("PANIC {}", path.display())); continue; };
        if std::env::var_os("SHOW").is_some() { println!("{}", played.clone().unwrap_or_default()); }
        let actual = match played {
            Ok(actual) => actual,
            Err(why) => {
                differing.push(format!("{}: {why}", path.display()));
                continue;
            }
        };
        if actual == expected {
            continue;
        }
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &actual).unwrap();
        } else {
            differing.push(format!(
                "{}\n{}",
                path.display(),
                first_difference(&expected, &actual)
            ));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn first_difference(expected: &str, actual: &str) -> String {
    let mut lines = expected.lines().zip(actual.lines()).enumerate();
    match lines.find(|(_, (expected, actual))| expected != actual) {
        Some((line, (expected, actual))) => {
            format!("line {}\n  expected {expected}\n  actual   {actual}", line + 1)
        }
        None => "one ends before the other".to_owned(),
    }
}
