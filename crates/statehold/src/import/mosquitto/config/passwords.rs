//! A `password_file`: names, and hashes of which only some are known here.

use std::collections::BTreeSet;

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Passwords {
    /// Lines that are right here as they are.
    pub(super) lines: Vec<String>,
    /// Names whose hashes are of another kind, or are none.
    pub(super) names: Vec<String>,
}

/// The hashes of Mosquitto 2.1 (Argon2id) are of the form that is used here. Those of older ones (`$6$` and `$7$`: rounds of SHA-512)
/// are not: nobody can tell from them what an Argon2id would be.
pub(super) fn parse(text: &str) -> Passwords {
    let mut found = Passwords::default();
    let mut seen = BTreeSet::new();
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (name, hash) = line.split_once(':').unwrap_or((line, ""));
        if name.is_empty() || !seen.insert(name) {
            continue;
        }
        if hash.starts_with("$argon2id$v=19$") && !name.contains(char::is_whitespace) {
            found.lines.push(line.to_owned());
        } else {
            found.names.push(name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_that_are_known_here_come_along_and_names_of_the_others() {
        let text = "# users\nann:$7$101$c2FsdA==$aGFzaA==\nbob:$argon2id$v=19$m=47104,t=1,p=1$c2FsdHNhbHQ$aGFzaA\nann:again\n:x\nplain:secret\n";
        let found = parse(text);
        assert_eq!(
            found.lines,
            ["bob:$argon2id$v=19$m=47104,t=1,p=1$c2FsdHNhbHQ$aGFzaA"]
        );
        assert_eq!(found.names, ["ann", "plain"]);
    }
}
