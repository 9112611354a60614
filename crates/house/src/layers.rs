//! Which crate may use which (ARCHITECTURE.md, "The house").

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use crate::Finding;

/// Each crate, and what of ours it may depend on.
pub const LAYERS: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("cluster", &[]),
    ("session_plane", &["cluster"]),
    ("session_plane/model", &[]),
    (
        "session_values",
        &["protocol", "cluster", "mqtt", "session_plane"],
    ),
    ("store", &["protocol"]),
    ("mqtt", &["protocol", "cluster"]),
    ("state_service", &["protocol", "store", "cluster", "mqtt"]),
    (
        "broker",
        &[
            "protocol",
            "store",
            "cluster",
            "mqtt",
            "session_plane",
            "session_values",
            "state_service",
        ],
    ),
    ("storage", &["cluster"]),
    (
        "server",
        &[
            "broker",
            "mqtt",
            "state_service",
            "storage",
            "cluster",
            "protocol",
            "store",
        ],
    ),
    ("client", &["protocol"]),
    ("statehold", &["client", "server"]),
    (
        "sim",
        &[
            "broker",
            "mqtt",
            "session_plane",
            "state_service",
            "store",
            "cluster",
            "protocol",
            "storage",
            "client",
        ],
    ),
    ("house", &[]),
];

/// What tests may use beyond that: a server is tested with a client.
const LAYERS_OF_TESTS: &[(&str, &[&str])] = &[("server", &["client"]), ("statehold", &["protocol"])];

/// Crates without I/O, clock and threads of their own.
pub const SANS_IO: [&str; 8] = [
    "protocol",
    "store",
    "cluster",
    "session_plane",
    "mqtt",
    "session_values",
    "state_service",
    "broker",
];

/// What brings I/O, timers or threads, however deep it is among the dependencies.
const EDGE_PACKAGES: [&str; 12] = [
    "tokio",
    "async-std",
    "smol",
    "mio",
    "socket2",
    "hyper",
    "axum",
    "rustls",
    "fjall",
    "rayon",
    "tracing-subscriber",
    "chrono",
];

/// A manifest of ours.
#[derive(Debug)]
pub struct Manifest {
    /// The folder in `crates/`.
    pub name: String,
    /// As parsed.
    pub table: Table,
}

/// Dependencies of ours that the table does not allow, and crates that are not in the table.
pub fn check_ours(manifests: &[Manifest]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in manifests {
        let path = format!("crates/{}/Cargo.toml", manifest.name);
        let Some(allowed) = allowed_in(LAYERS, &manifest.name) else {
            findings.push(Finding::in_file(
                &path,
                "the crate is not in the table of layers (crates/house/src/layers.rs)",
            ));
            continue;
        };
        let in_tests = allowed_in(LAYERS_OF_TESTS, &manifest.name).unwrap_or_default();
        for (section, dependency) in dependencies(&manifest.table) {
            let ours = manifests.iter().any(|other| other.name == dependency);
            let is_allowed = allowed.contains(&dependency.as_str())
                || (section == "dev-dependencies" && in_tests.contains(&dependency.as_str()));
            if ours && !is_allowed {
                findings.push(Finding::in_file(
                    &path,
                    format!("must not depend on `{dependency}` ([{section}])"),
                ));
            }
        }
    }
    findings
}

/// Packages of the edge that a crate without I/O reaches, through any number of others; tests may use them.
pub fn check_reach(manifests: &[Manifest], lock: &Table) -> Vec<Finding> {
    let graph = graph(lock);
    let mut findings = Vec::new();
    for manifest in manifests
        .iter()
        .filter(|manifest| SANS_IO.contains(&manifest.name.as_str()))
    {
        let direct = dependencies(&manifest.table)
            .into_iter()
            .filter(|(section, _)| section != "dev-dependencies");
        for (_, dependency) in direct {
            if manifests.iter().any(|other| other.name == dependency) {
                continue;
            }
            let reached = reach(&graph, &dependency);
            for package in EDGE_PACKAGES.iter().filter(|package| reached.contains(**package)) {
                let path = format!("crates/{}/Cargo.toml", manifest.name);
                findings.push(Finding::in_file(
                    &path,
                    format!("`{dependency}` brings `{package}`, which belongs to the edge"),
                ));
            }
        }
    }
    findings
}

fn allowed_in<'a>(layers: &[(&str, &'a [&'a str])], name: &str) -> Option<&'a [&'a str]> {
    layers
        .iter()
        .find(|(layer, _)| *layer == name)
        .map(|(_, allowed)| *allowed)
}

/// Section and name of each dependency, also of those for one platform.
pub fn dependencies(manifest: &Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let targets = manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(Table::values);
    for table in targets.filter_map(Value::as_table).chain([manifest]) {
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let names = table
                .get(section)
                .and_then(Value::as_table)
                .into_iter()
                .flat_map(Table::keys);
            found.extend(names.map(|name| (section.to_owned(), name.clone())));
        }
    }
    found
}

/// Package -> packages it depends on, by name, over all versions.
fn graph(lock: &Table) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in lock
        .get("package")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let Some(name) = package.get("name").and_then(Value::as_str) else {
            continue;
        };
        let needs = package
            .get("dependencies")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let names = needs
            .filter_map(Value::as_str)
            .filter_map(|need| need.split(' ').next());
        graph.entry(name).or_default().extend(names);
    }
    graph
}

fn reach(graph: &BTreeMap<&str, BTreeSet<&str>>, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::from([from.to_owned()]);
    let mut waiting = vec![from.to_owned()];
    while let Some(package) = waiting.pop() {
        for next in graph.get(package.as_str()).into_iter().flatten() {
            if reached.insert((*next).to_owned()) {
                waiting.push((*next).to_owned());
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, text: &str) -> Manifest {
        Manifest {
            name: name.to_owned(),
            table: text.parse().expect("the sample is TOML"),
        }
    }

    fn whats(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.what.as_str()).collect()
    }

    #[test]
    fn a_dependency_upwards_is_found_in_every_section() {
        let samples = [
            manifest("protocol", "[dependencies]\nstore.workspace = true"),
            manifest(
                "store",
                "[dev-dependencies]\nserver.workspace = true\n[dependencies]\nprotocol.workspace = true",
            ),
            manifest(
                "cluster",
                "[target.'cfg(unix)'.dependencies]\nbroker.workspace = true",
            ),
            manifest("server", "[dev-dependencies]\nclient.workspace = true"),
            manifest("client", "[build-dependencies]\nstore.workspace = true"),
            manifest("broker", "[dependencies]\nprotocol.workspace = true"),
        ];
        assert_eq!(
            whats(&check_ours(&samples)),
            [
                "must not depend on `store` ([dependencies])",
                "must not depend on `server` ([dev-dependencies])",
                "must not depend on `broker` ([dependencies])",
                "must not depend on `store` ([build-dependencies])",
            ]
        );
    }

    #[test]
    fn a_crate_that_nobody_placed_is_found() {
        let findings = check_ours(&[manifest("gateway", "")]);
        assert_eq!(findings.len(), 1);
    }

    #[test]
    fn a_package_of_the_edge_is_found_behind_another() {
        let lock = "[[package]]\nname = \"a\"\ndependencies = [\"b 1.0.0\"]\n\
                    [[package]]\nname = \"b\"\ndependencies = [\"tokio\"]\n[[package]]\nname = \"c\"\n"
            .parse()
            .expect("the sample is TOML");
        let samples = [
            manifest("store", "[dependencies]\na = \"1\"\nc = \"1\""),
            manifest("server", "[dependencies]\na = \"1\""),
            manifest("broker", "[dev-dependencies]\na = \"1\""),
        ];
        assert_eq!(
            whats(&check_reach(&samples, &lock)),
            ["`a` brings `tokio`, which belongs to the edge"]
        );
    }
}
