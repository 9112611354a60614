//! How much memory the process may use: the machine's, or less if a control group says so.
//!
//! Read once, when the server starts. On other systems than Linux, and where nothing can be read, it is not known.

use std::fs;
use std::path::{Path, PathBuf};

/// The bytes that the process may use, if that can be found out.
pub(crate) fn bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(Path::new("/sys/fs/cgroup"), &groups)
        .into_iter()
        .filter_map(|file| limit(&fs::read_to_string(file).ok()?));
    machine.into_iter().chain(limits).min()
}

/// `MemTotal` of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    kibibytes.checked_mul(1_024)
}

/// The files that may limit the process: those of its control group and of all above it, for both versions of the interface.
/// In a container the group's path may be that of the host, so only the top of it can be seen.
fn limit_files(root: &Path, groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (top, name) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            "memory" => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        let group = top.join(path.trim_start_matches('/'));
        let inside = group.ancestors().take_while(|group| group.starts_with(&top));
        files.extend(inside.map(|group| group.join(name)));
    }
    files
}

/// What a file of a control group says; `max` is no limit.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_in_bytes() {
        assert_eq!(
            total("MemTotal:       24682680 kB\nMemFree: 1 kB\n"),
            Some(24_682_680 * 1_024)
        );
        assert_eq!(total("nothing of the kind"), None);
    }

    #[test]
    fn groups_of_both_versions_and_all_above_them_may_limit() {
        let groups = "9:cpu:/x\n4:memory:/a/b\n0::/system.slice/statehold.service\n";
        let files = limit_files(Path::new("/cg"), groups);
        let expected = [
            "/cg/memory/a/b/memory.limit_in_bytes",
            "/cg/memory/a/memory.limit_in_bytes",
            "/cg/memory/memory.limit_in_bytes",
            "/cg/system.slice/statehold.service/memory.max",
            "/cg/system.slice/memory.max",
            "/cg/memory.max",
        ];
        assert_eq!(files, expected.map(PathBuf::from));
    }

    #[test]
    fn max_is_no_limit() {
        assert_eq!(limit("max\n"), None);
        assert_eq!(limit("1073741824\n"), Some(1 << 30));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn something_is_found_on_linux() {
        assert!(bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
