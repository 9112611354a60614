//! What every manifest of ours has to say.

use toml::{Table, Value};

use crate::Finding;
use crate::layers::{Manifest, dependencies};

/// Manifests that do not take lints, package fields and versions of dependencies from the workspace.
pub fn check(manifests: &[Manifest]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in manifests {
        let path = format!("crates/{}/Cargo.toml", manifest.name);
        let table = Value::Table(manifest.table.clone());
        if !from_workspace(table.get("lints")) {
            findings.push(Finding::in_file(&path, "has to say `[lints] workspace = true`"));
        }
        for field in [
            "version",
            "edition",
            "rust-version",
            "license",
            "repository",
            "publish",
        ] {
            if !from_workspace(table.get("package").and_then(|package| package.get(field))) {
                findings.push(Finding::in_file(
                    &path,
                    format!("`package.{field}` has to come from the workspace"),
                ));
            }
        }
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            for (name, value) in table.get(section).and_then(Value::as_table).into_iter().flatten() {
                if !from_workspace(Some(value)) {
                    findings.push(Finding::in_file(
                        &path,
                        format!("the version of `{name}` has to come from the workspace"),
                    ));
                }
            }
        }
    }
    findings
}

/// Versions in `[workspace.dependencies]` that no crate asks for.
pub fn check_unused(workspace: &Table, manifests: &[Manifest]) -> Vec<Finding> {
    let versions = workspace
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"));
    let names = versions
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(Table::keys);
    let used = |name: &&String| {
        manifests
            .iter()
            .any(|manifest| dependencies(&manifest.table).iter().any(|(_, it)| it == *name))
    };
    let unused = names.filter(|name| !used(name));
    unused
        .map(|name| Finding::in_file("Cargo.toml", format!("no crate uses `{name}`")))
        .collect()
}

/// The binaries of the workspace; `cargo run` works only while there is one.
pub fn binaries(manifests: &[Manifest], has_main: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    for manifest in manifests {
        let declared = manifest.table.get("bin").and_then(Value::as_array);
        match declared {
            Some(bins) => names.extend(
                bins.iter()
                    .filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned)),
            ),
            None if has_main(&manifest.name) => names.push(manifest.name.clone()),
            None => {}
        }
    }
    names
}

fn from_workspace(value: Option<&Value>) -> bool {
    value
        .and_then(|value| value.get("workspace"))
        .and_then(Value::as_bool)
        == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: &str = "[package]\nname = \"a\"\nversion.workspace = true\nedition.workspace = true\n\
        rust-version.workspace = true\nlicense.workspace = true\nrepository.workspace = true\npublish.workspace = true\n";

    fn findings(rest: &str) -> Vec<String> {
        let table = format!("{PACKAGE}{rest}").parse().expect("the sample is TOML");
        let findings = check(&[Manifest {
            name: "a".to_owned(),
            table,
        }]);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_manifest_on_its_own_is_found() {
        assert_eq!(
            findings("[lints]\nworkspace = true\n[dependencies]\nbytes.workspace = true"),
            Vec::<String>::new()
        );
        assert_eq!(findings(""), ["has to say `[lints] workspace = true`"]);
        assert_eq!(
            findings("[lints]\nworkspace = true\n[dev-dependencies]\nbytes = \"1\""),
            ["the version of `bytes` has to come from the workspace"]
        );
    }

    #[test]
    fn a_version_that_nobody_asks_for_is_found() {
        let workspace = "[workspace.dependencies]\nbytes = \"1\"\nslab = \"1\""
            .parse()
            .expect("the sample is TOML");
        let table = "[target.'cfg(unix)'.dependencies]\nbytes.workspace = true"
            .parse()
            .expect("the sample is TOML");
        let findings = check_unused(
            &workspace,
            &[Manifest {
                name: "a".to_owned(),
                table,
            }],
        );
        assert_eq!(findings, [Finding::in_file("Cargo.toml", "no crate uses `slab`")]);
    }

    #[test]
    fn binaries_are_counted() {
        let manifest = |name: &str, text: &str| Manifest {
            name: name.to_owned(),
            table: text.parse().expect("TOML"),
        };
        let manifests = [
            manifest("a", "[[bin]]\nname = \"b\"\n[[bin]]\nname = \"c\""),
            manifest("d", ""),
            manifest("e", ""),
        ];
        assert_eq!(binaries(&manifests, &|name| name == "d"), ["b", "c", "d"]);
    }
}
