use super::*;

const HASH: &str = "$argon2id$v=19$m=8192,t=1,p=1$c2FsdHNhbHQ$BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc";

fn parse(text: &str) -> Result<Passwords, String> {
    Passwords::parse(Path::new("clients.passwd"), text).map_err(|error| error.to_string())
}

fn entry(attributes: &[(&str, &str)]) -> Entry {
    let text = |text: &str| Text::new(text).expect("short");
    Entry {
        hash: PasswordHash::parse(HASH).expect("right"),
        attributes: attributes
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect(),
    }
}

#[test]
fn names_are_found_with_what_is_known_of_them() {
    let text = format!(
        "# a fleet\n\npump:{HASH}\r\nplant:1/pump 2:{HASH} site=north floor=3\nv:{HASH} a=b%20%25c\n"
    );
    let passwords = parse(&text).expect("right");
    assert_eq!(passwords.get("pump"), Some(&entry(&[])));
    assert_eq!(
        passwords.get("plant:1/pump 2"),
        Some(&entry(&[("site", "north"), ("floor", "3")]))
    );
    assert_eq!(passwords.get("v"), Some(&entry(&[("a", "b %c")])));
    assert_eq!(passwords.get("nobody"), None);
}

#[test]
fn a_mistake_names_its_line_and_never_what_is_in_it() {
    for line in [
        "pump:pencil".to_owned(),
        format!("pump:{HASH} site"),
        format!("pump:{HASH} site=a site=b"),
        format!("pump:{HASH}  site=a"),
        format!("pump:{HASH} =a"),
        format!("pump:{HASH} site=%2"),
        format!("pump:{HASH} site=%+2"),
        format!("pump:{HASH} site=%ff"),
        format!("pump:{HASH} site=%00"),
        format!(" pump:{HASH}"),
        format!(":{HASH}"),
        format!("pu\u{1}mp:{HASH}"),
        format!("pump:{}", HASH.replace("m=8192", "m=9999999")),
    ] {
        let told = parse(&format!("# first\n{line}\n")).expect_err(&line);
        assert_eq!(
            told,
            "clients.passwd:2: not a line as `statehold passwd` writes it, or its parameters are beyond the bounds"
        );
    }
    assert_eq!(
        parse(&format!("pump:{HASH}\npump:{HASH}\n")),
        Err("clients.passwd:2: `pump` has a line above".to_owned())
    );
}

#[test]
fn a_line_is_read_again_as_it_was_or_not_written() {
    for attributes in [
        &[("site", "north")] as &[_],
        &[("a b", "c=d % e\u{a0}\u{2028}f")],
        &[],
    ] {
        let entry = entry(attributes);
        let line = entry.line("plant:1/pump 2").expect("a line");
        assert_eq!(
            parse(&line).expect("right").get("plant:1/pump 2"),
            Some(&entry),
            "{line}"
        );
    }
    for name in ["", "#pump", " pump", "a\nb", "a:$argon2id$b"] {
        assert_eq!(entry(&[]).line(name), None, "{name:?}");
    }
    assert_eq!(entry(&[("", "a")]).line("pump"), None);
}

#[test]
fn a_line_is_added_replaced_or_left_out_and_all_else_stays() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let file = directory.path().join("clients.passwd");
    let line = |name: &str| format!("{name}:{HASH}");
    let with = |name: &str, line: Option<&str>| with_line(&file, name, line).expect("right");
    assert_eq!(
        with("a", Some(&line("a"))),
        (format!("{}\n", line("a")), false),
        "a new file"
    );
    std::fs::write(
        &file,
        format!("# first\n{}\n\n# second\n{}", line("a"), line("b")),
    )
    .expect("written");
    let changed = format!("{} site=north", line("a"));
    assert_eq!(
        with("a", Some(&changed)),
        (format!("# first\n{changed}\n\n# second\n{}\n", line("b")), true)
    );
    assert_eq!(
        with("c", Some(&line("c"))).0,
        format!(
            "# first\n{}\n\n# second\n{}\n{}\n",
            line("a"),
            line("b"),
            line("c")
        )
    );
    assert_eq!(
        with("b", None),
        (format!("# first\n{}\n\n# second\n", line("a")), true)
    );
    assert!(!with("c", None).1);
    std::fs::write(&file, "a:pencil\n").expect("written");
    assert!(
        with_line(&file, "b", None).is_err(),
        "what is not understood is not changed"
    );
}

#[test]
fn an_unknown_name_costs_what_some_known_one_costs() {
    let costly = HASH.replace("m=8192", "m=16384");
    let passwords = parse(&format!("a:{HASH}\nb:{costly}\nc:{costly}\n")).expect("right");
    let costs: Vec<_> = (0..6)
        .map(|number| passwords.cost_of_unknown(number).memory_kib)
        .collect();
    assert_eq!(costs, [8_192, 16_384, 16_384, 8_192, 16_384, 16_384]);
    assert_eq!(Passwords::default().cost_of_unknown(7), Cost::default());
}

/// A file as a released version wrote it.
#[test]
fn a_file_of_version_0_1_is_read() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1/clients.passwd");
    let passwords = Passwords::read(Path::new(file)).expect("right");
    let entry = passwords.get("pump 7").expect("there");
    assert_eq!(
        entry.attributes.get("site"),
        Some(&Text::from_static("north hall"))
    );
    assert!(
        entry
            .hash
            .is_of(b"pencil", &mut super::super::hash::Scratch::default())
    );
}
