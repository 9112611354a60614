//! Commands that wait until they are applied: which are sent, and when again.

use store::{KeyRecord, Origin, Version};

use super::*;

fn command(request: u64) -> Command {
    let origin = Origin {
        node: 2,
        incarnation: 1,
        request,
    };
    let action = CommandAction::Expire {
        keys: vec![Bytes::from_static(b"a key of some length")],
    };
    Command { origin, action }
}

fn keep(forwarding: &mut Forwarding, requests: impl IntoIterator<Item = u64>, needs_disk: bool) {
    let now = Now {
        instant: crate::epoch(),
        wall: 0,
        system_wall: 0,
    };
    for request in requests {
        forwarding.keep(now, request, command(request), Whose::Client { needs_disk });
    }
}

/// The requests of each message, and whether it asks for the disk.
fn sent(forwarding: &mut Forwarding, entry_bytes_max: usize) -> Vec<(Vec<u64>, bool)> {
    let messages = forwarding.take_unsent(entry_bytes_max).into_iter();
    let read = messages.map(|message| {
        let PeerMessage::Commands { needs_disk, entry } = message else {
            panic!("{message:?}");
        };
        let commands = store::decode_entry(entry).expect("as it was written").commands;
        let requests = commands.iter().map(|command| command.origin.request);
        (requests.collect(), needs_disk)
    });
    read.collect()
}

#[test]
fn what_was_sent_is_sent_again_as_it_was_until_it_is_applied() {
    let mut forwarding = Forwarding::default();
    keep(&mut forwarding, 1..=2, true);
    assert_eq!(sent(&mut forwarding, 1_000), [(vec![1, 2], true)]);
    assert_eq!(sent(&mut forwarding, 1_000), []);
    keep(&mut forwarding, 3..=3, false);
    assert_eq!(sent(&mut forwarding, 1_000), [(vec![3], false)]);
    forwarding.applied(1);
    forwarding.make_all_due(crate::epoch());
    forwarding.due = forwarding.take_due(crate::epoch());
    assert_eq!(sent(&mut forwarding, 1_000), [(vec![2, 3], true)]);
}

#[test]
fn many_commands_go_in_several_entries() {
    let mut forwarding = Forwarding::default();
    keep(&mut forwarding, 1..=100, false);
    let messages = sent(&mut forwarding, 500);
    assert!(messages.len() > 5, "{messages:?}");
    let requests: Vec<u64> = messages.into_iter().flat_map(|(requests, _)| requests).collect();
    assert_eq!(requests, (1..=100).collect::<Vec<_>>());
}

/// Commands on virtual time; times are in seconds from the start.
struct Story {
    forwarding: Forwarding,
    start: Instant,
}

const CLIENT: Whose = Whose::Client { needs_disk: false };

impl Story {
    fn begin() -> Self {
        Self {
            forwarding: Forwarding::default(),
            start: crate::epoch(),
        }
    }

    fn instant(&self, seconds: f64) -> Instant {
        self.start + Duration::from_secs_f64(seconds)
    }

    /// Keeps a command with so many bytes.
    fn keep(&mut self, seconds: f64, request: u64, bytes: usize, whose: Whose) {
        let keys = vec![Bytes::from(vec![0; bytes])];
        self.keep_action(seconds, request, CommandAction::Expire { keys }, whose);
    }

    fn keep_action(&mut self, seconds: f64, request: u64, action: CommandAction, whose: Whose) {
        let now = Now {
            instant: self.instant(seconds),
            wall: 0,
            system_wall: 0,
        };
        let origin = command(request).origin;
        let command = Command { origin, action };
        self.forwarding.keep(now, request, command, whose);
    }

    /// What is due again, which has its time anew.
    fn due(&mut self, seconds: f64) -> Vec<u64> {
        let now = self.instant(seconds);
        self.forwarding.take_due(now).into_iter().collect()
    }

    fn deadline(&self) -> Option<f64> {
        let deadline = self.forwarding.deadline();
        deadline.map(|deadline| (deadline - self.start).as_secs_f64())
    }
}

#[test]
fn a_large_command_has_the_time_that_its_bytes_take() {
    let mut story = Story::begin();
    story.keep(0.0, 1, 10, CLIENT);
    story.keep(0.0, 2, 4 * BYTES_A_SECOND, CLIENT);
    story.keep(0.0, 3, 10, CLIENT);
    assert_eq!(story.due(1.1), [1], "it was before the large one");
    assert_eq!(story.due(4.9), [1]);
    assert_eq!(story.due(5.1), [2, 3], "it waits behind the large one");
    assert_eq!(story.due(6.2), [1]);
    story.forwarding.applied(2);
    story.keep(7.0, 4, 10, CLIENT);
    assert_eq!(story.due(8.1), [1, 4], "nothing large is in the way any more");
}

/// A backup that is put back may have large values, too.
#[test]
fn the_value_of_a_key_that_is_put_back_counts() {
    let mut story = Story::begin();
    let record = KeyRecord {
        key: Bytes::from_static(b"key"),
        value: Bytes::from(vec![0; 4 * BYTES_A_SECOND]),
        version: Version { wall: 1, counter: 0 },
        deadline: None,
        fencing: None,
    };
    story.keep_action(0.0, 1, CommandAction::Reinstate { record }, Whose::Own);
    assert_eq!(story.due(4.9), []);
    assert_eq!(story.due(5.1), [1]);
}

/// A look costs as much as there are commands that wait.
#[test]
fn commands_that_came_one_after_the_other_are_looked_for_together() {
    let mut story = Story::begin();
    for request in 0..100 {
        story.keep(request as f64 / 1_000.0, request, 0, CLIENT);
    }
    let mut looks = Vec::new();
    while let Some(at) = story.deadline().filter(|at| *at < 1.9) {
        looks.push(story.due(at).len());
    }
    assert_eq!(looks, [1, 99]);
}

#[test]
fn a_clients_command_is_given_up_in_time_however_large_it_is() {
    let mut story = Story::begin();
    story.keep(0.0, 1, 20 * BYTES_A_SECOND, CLIENT);
    story.keep(0.0, 2, 0, Whose::Own);
    assert_eq!(story.deadline(), Some(SENT_AGAIN_FOR.as_secs_f64()));
    let now = story.instant(10.0);
    assert_eq!(story.forwarding.take_given_up(now), [1]);
    assert_eq!(story.due(10.0), []);
    assert_eq!(story.due(21.1), [2]);
    assert_eq!(story.deadline().map(f64::round), Some(22.0), "the bytes are gone");
    story.keep(30.0, 3, 10, CLIENT);
    assert_eq!(story.due(31.1), [2, 3], "nothing large is in the way");
}

#[test]
fn only_what_is_due_goes_again_to_the_leader_and_once() {
    let mut story = Story::begin();
    story.keep(0.0, 1, 10, CLIENT);
    story.keep(0.0, 2, BYTES_A_SECOND, CLIENT);
    assert_eq!(sent(&mut story.forwarding, usize::MAX), [(vec![1, 2], false)]);
    story.keep(0.1, 3, 10, CLIENT);
    let due = story.due(1.5);
    story.forwarding.due.extend(due);
    assert_eq!(sent(&mut story.forwarding, usize::MAX), [(vec![1, 3], false)]);
    story.keep(1.6, 4, 10, CLIENT);
    story.forwarding.make_all_due(story.start);
    let due = story.due(1.6);
    story.forwarding.due.extend(due);
    assert_eq!(
        sent(&mut story.forwarding, usize::MAX),
        [(vec![1, 2, 3, 4], false)]
    );
    assert_eq!(sent(&mut story.forwarding, usize::MAX), []);
}
