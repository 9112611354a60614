//! Reading the repository.

use std::fs;
use std::path::{Path, PathBuf};

use crate::source::Source;

/// A file that the rules are about.
#[derive(Debug, Clone)]
pub struct Text {
    /// Relative to the repository, with `/`.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// The folder that the workspace is in.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("this crate is in the workspace")
}

/// All files below `folder` (relative to the repository; empty for all of it) whose name ends with `ending`, by path.
pub fn files(folder: &str, ending: &str) -> Vec<Text> {
    let root = root();
    let mut found = Vec::new();
    collect(&root, &root.join(folder), ending, &mut found);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// The Rust sources of the workspace and of the programs beside it.
pub fn sources() -> Vec<Source> {
    let folders = ["crates", "interop", "fuzz"];
    let texts = folders.into_iter().flat_map(|folder| files(folder, ".rs"));
    texts.map(|file| Source::parse(&file.path, &file.text)).collect()
}

fn collect(root: &Path, folder: &Path, ending: &str, into: &mut Vec<Text>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let kind = entry.file_type().expect("the file was listed");
        if kind.is_dir() && !NOT_OURS.contains(&name.as_str()) {
            collect(root, &path, ending, into);
        } else if kind.is_file() && name.ends_with(ending) {
            let relative = path
                .strip_prefix(root)
                .expect("it is below the root")
                .to_string_lossy()
                .replace('\\', "/");
            let text =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{relative} is not text: {error}"));
            into.push(Text { path: relative, text });
        }
    }
}

/// Folders of what others wrote or what is made.
const NOT_OURS: [&str; 7] = [
    ".git",
    "target",
    "node_modules",
    ".venv",
    "vendor",
    "data",
    "corpus",
];
