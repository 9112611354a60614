//! The house rules over the whole repository.

use std::path::Path;

use house::conformance::{self, Specification, Version};
use house::layers::{self, LAYERS, Manifest};
use house::repository::{self, Text};
use house::{Finding, docs, escaping, io, manifests, names, threats, tidy};

/// Fails with every finding, each on a line of its own.
#[track_caller]
fn none(findings: impl IntoIterator<Item = Finding>) {
    let lines: Vec<_> = findings.into_iter().map(|finding| finding.to_string()).collect();
    assert!(
        lines.is_empty(),
        "{} findings:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

fn our_manifests() -> Vec<Manifest> {
    let files = repository::files("crates", "Cargo.toml");
    let parse = |file: Text| {
        let inner = file.path.strip_prefix("crates/");
        let name = inner
            .and_then(|path| path.strip_suffix("/Cargo.toml"))
            .expect("crates/NAME/Cargo.toml")
            .to_owned();
        Manifest {
            name,
            table: file.text.parse().expect("a manifest is TOML"),
        }
    };
    files.into_iter().map(parse).collect()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn crates_use_only_what_their_layer_allows() {
    let manifests = our_manifests();
    assert_eq!(manifests.len(), LAYERS.len(), "a crate of the table is missing");
    none(layers::check_ours(&manifests));
    let lock = read("Cargo.lock").parse().expect("the lock file is TOML");
    none(layers::check_reach(&manifests, &lock));
}

#[test]
fn crates_take_lints_and_versions_from_the_workspace() {
    let manifests = our_manifests();
    none(manifests::check(&manifests));
    none(manifests::check_unused(
        &read("Cargo.toml").parse().expect("a manifest is TOML"),
        &manifests,
    ));
}

#[test]
fn cargo_run_knows_what_to_run() {
    let workspace: toml::Table = read("Cargo.toml").parse().expect("a manifest is TOML");
    let members = workspace["workspace"]["default-members"]
        .as_array()
        .expect("a list of crates");
    let is_default = |manifest: &Manifest| {
        let folder = format!("crates/{}", manifest.name);
        members.iter().any(|member| member.as_str() == Some(&folder))
    };
    let defaults: Vec<_> = our_manifests().into_iter().filter(is_default).collect();
    let has_main = |name: &str| {
        repository::root()
            .join(format!("crates/{name}/src/main.rs"))
            .exists()
    };
    assert_eq!(manifests::binaries(&defaults, &has_main), ["statehold"]);
}

#[test]
fn there_is_no_io_left_of_the_edge() {
    none(repository::sources().iter().flat_map(io::check));
}

#[test]
fn only_a_clock_reads_the_clock() {
    none(repository::sources().iter().flat_map(io::check_clock));
}

#[test]
fn text_of_clients_has_one_form_and_few_doors() {
    none(repository::sources().iter().flat_map(escaping::check));
}

#[test]
fn no_file_is_too_long() {
    let sources = repository::sources();
    for source in &sources {
        let lines = source.text.lines().count();
        if lines > tidy::LINES_LONG {
            println!("{}: {lines} lines", source.path);
        }
    }
    none(sources.iter().flat_map(tidy::check_length));
}

#[test]
fn nothing_is_left_over() {
    none(repository::sources().iter().flat_map(tidy::check_leftovers));
}

#[test]
fn exceptions_from_lints_have_reasons() {
    none(repository::sources().iter().flat_map(tidy::check_reasons));
}

#[test]
fn names_say_what_the_glossary_says() {
    let banned = names::banned_in(&read("docs/glossary.md"));
    assert!(banned.len() > 10, "the glossary bans words in code font");
    let ours = |source: &&house::source::Source| source.path.starts_with("crates/");
    none(
        repository::sources()
            .iter()
            .filter(ours)
            .flat_map(|source| names::check(source, &banned)),
    );
}

#[test]
fn attacks_have_tests() {
    let page = Text {
        path: "SECURITY.md".to_owned(),
        text: read("SECURITY.md"),
    };
    let exists = |path: &str| Path::exists(&repository::root().join(path));
    none(threats::check(
        &page,
        &repository::files("crates", ".rs"),
        &exists,
    ));
}

#[test]
fn pages_are_whole() {
    let pages = repository::files("", ".md");
    let exists = |path: &str| Path::exists(&repository::root().join(path));
    none(docs::check_links(&pages, &exists));
    let other = |source: &&house::source::Source| !source.path.starts_with("crates/house/");
    none(
        repository::sources()
            .iter()
            .filter(other)
            .flat_map(|source| docs::check_mentions(source, &exists)),
    );
    none(docs::check_length(&pages));
    none(docs::check_decisions(&pages));
}

/// What the README tells people to run is what CI runs.
#[test]
fn ci_runs_the_commands_of_the_readme() {
    let (readme, ci) = (read("README.md"), read(".ci/run"));
    let tests = "cargo test --workspace";
    assert!(
        readme.lines().any(|line| line == tests),
        "README.md does not say `{tests}`"
    );
    assert!(
        ci.lines().any(|line| line.ends_with(tests)),
        ".ci/run does not run `{tests}`"
    );
    assert!(readme.lines().any(|line| line == "cargo run --release -- serve"));
    let example = read("interop/official/examples/first_steps.rs");
    assert!(
        readme.contains(&format!("```rust\n{example}```\n")),
        "README.md shows another first_steps.rs"
    );
    assert!(read(".github/workflows/ci.yml").contains(".ci/run"));
}

fn specifications() -> [Specification; 2] {
    [
        ("mqtt5.toml", Version::V5, 251),
        ("mqtt311.toml", Version::V311, 141),
    ]
    .map(|(name, version, count)| {
        let path = format!("crates/house/conformance/{name}");
        let specification = Specification::parse(&path, version, &read(&path)).expect("the list can be read");
        assert_eq!(
            specification.statements().count(),
            count,
            "statements of {version}"
        );
        specification
    })
}

#[test]
fn conformance_is_what_the_tests_show() {
    let (specifications, sources) = (specifications(), repository::sources());
    let mut testdata = repository::files("crates", ".txt");
    testdata.retain(|file| file.path.contains("/testdata/"));
    none(conformance::check_citations(&specifications, &sources, &testdata));
    let evidence = conformance::evidence(&specifications, &sources, &testdata);
    let check = |specification| conformance::check_statements(specification, &evidence, &sources);
    none(specifications.iter().flat_map(check));
    let page = conformance::page(&specifications, &evidence);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(repository::root().join("docs/conformance.md"), &page).expect("docs/ can be written");
    }
    assert!(
        read("docs/conformance.md") == page,
        "docs/conformance.md is stale: UPDATE=1 cargo test -p house conformance"
    );
}
