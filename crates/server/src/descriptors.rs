//! How many files the process may have open, and so how many connections there can be.
//!
//! Connections never take the last descriptors: a disk thread that cannot open a file stops the node.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything that is no client's connection: tables that the storage keeps open
/// (`storage` bounds them at 256), segments, snapshots, listeners, admin pages, files of TLS. Twice what was seen at most.
const OTHER_DESCRIPTORS: usize = 512;

/// Raises the soft limit of the process to its hard limit. Returns how many connections have room below it; `None`: any number.
pub(crate) fn raise_limit() -> Option<usize> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of open files");
            limit.current
        }
    };
    current.map(|descriptors| room(usize::try_from(descriptors).unwrap_or(usize::MAX)))
}

/// Under a limit that is too small for a server, half of it.
fn room(descriptors: usize) -> usize {
    descriptors - OTHER_DESCRIPTORS.min(descriptors / 2)
}

/// How many strangers each of the listeners may have: all together take a quarter of the room at most, and the rest is for clients.
pub(crate) fn strangers_max(wanted: u32, room: Option<usize>, listeners: usize) -> u32 {
    let Some(room) = room else { return wanted };
    let each = (room / 4 / listeners.max(1)).max(1);
    wanted.min(u32::try_from(each).unwrap_or(u32::MAX))
}

/// How many connections there may be of those that the settings allow, beside so many strangers.
pub(crate) fn connections_max(wanted: u32, room: Option<usize>, strangers: usize) -> u32 {
    let Some(room) = room else { return wanted };
    let possible = u32::try_from(clients_max(room, strangers)).unwrap_or(u32::MAX);
    if possible < wanted {
        tracing::warn!(
            connections_max = wanted,
            possible,
            "the limit of open files of this process has room for fewer connections than limits.connections_max; \
             raise it (ulimit -Hn, LimitNOFILE=) or lower the setting"
        );
    }
    wanted.min(possible)
}

/// Descriptors for clients that are known, in a room that so many strangers share.
pub(crate) fn clients_max(room: usize, strangers: usize) -> usize {
    room.saturating_sub(strangers).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_left_for_the_disk_under_every_limit() {
        assert_eq!([20, 1_024, 20_000].map(room), [10, 512, 19_488]);
    }

    #[test]
    fn connections_are_as_many_as_the_settings_and_the_system_allow() {
        assert_eq!(connections_max(100_000, None, 1_000), 100_000);
        assert_eq!(connections_max(100_000, Some(19_488), 1_000), 18_488);
        assert_eq!(connections_max(100, Some(19_488), 1_000), 100);
        assert_eq!(connections_max(100, Some(10), 2), 8);
    }

    #[test]
    fn strangers_of_all_listeners_take_a_quarter_at_most() {
        assert_eq!(strangers_max(1_000, None, 3), 1_000);
        assert_eq!(strangers_max(1_000, Some(19_488), 3), 1_000);
        assert_eq!(strangers_max(1_000, Some(512), 2), 64);
        assert_eq!(strangers_max(1_000, Some(10), 4), 1);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
