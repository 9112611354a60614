//! Table of kinds: its numbers, and that the specification has the same.

use std::fs;
use std::path::Path;

use super::*;

#[test]
fn numbers_begin_at_one_and_have_no_gap() {
    for (index, row) in KINDS.iter().enumerate() {
        assert_eq!(usize::from(row.kind.number()), index + 1, "{}", row.name);
        assert_eq!(Kind::of_number(row.kind.number()), Some(row.kind));
        assert_eq!(row.kind.to_string(), row.name);
        assert_eq!(format!("{:?}", row.kind), row.name);
    }
    let beyond = u8::try_from(KINDS.len() + 1).unwrap();
    assert_eq!([0, beyond, 255].map(Kind::of_number), [None; 3]);
}

#[test]
fn there_are_few_kinds() {
    assert!(KINDS.len() <= 35, "{} kinds", KINDS.len());
}

#[test]
fn the_specification_has_the_same_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/session-plane.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("### Encoding\n").expect("a section");
    let (_, table) = section
        .split_once("| kind | message | types |\n|---|---|---|\n")
        .expect("a table");
    let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let expected = KINDS.iter().map(|row| {
        let module = format!("{:?}", row.module).to_lowercase();
        format!("| {} | {} | {module} |", row.kind.number(), row.name)
    });
    assert_eq!(rows, expected.collect::<Vec<String>>());
}

#[test]
fn the_specification_names_the_version() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/session-plane.md");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("The version is {VERSION}.")));
}
