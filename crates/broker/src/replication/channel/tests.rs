use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::epoch;

/// One side, what it has sent and not been read, and what it has read since the last begin.
#[derive(Debug)]
struct Side {
    channel: Channel,
    sent: VecDeque<(Header, Option<u32>)>,
    next: u32,
    read: Vec<u32>,
    begun: usize,
}

impl Side {
    fn new(incarnation: u32) -> Side {
        Side {
            channel: Channel::new(Incarnation(incarnation)),
            sent: VecDeque::new(),
            next: 0,
            read: Vec::new(),
            begun: 0,
        }
    }

    fn send(&mut self) {
        let header = self.channel.next_header();
        self.sent.push_back((header, Some(self.next)));
        self.next += 1;
    }

    fn greet(&mut self) {
        let header = self.channel.next_header();
        self.sent.push_back((header, None));
    }

    fn receive(&mut self, header: Header, message: Option<u32>) {
        let arrival = self.channel.receive(epoch(), header);
        if arrival.is_begun {
            self.begun += 1;
            self.read.clear();
        }
        if arrival.is_greeted {
            self.greet();
        }
        if let Some(message) = message.filter(|_| arrival.is_next) {
            self.read.push(message);
        }
    }
}

/// Delivers all that is under way until nothing is; gives the messages that it took.
fn settle(one: &mut Side, two: &mut Side) -> usize {
    let mut delivered = 0;
    while !one.sent.is_empty() || !two.sent.is_empty() {
        if let Some((header, message)) = one.sent.pop_front() {
            two.receive(header, message);
        }
        if let Some((header, message)) = two.sent.pop_front() {
            one.receive(header, message);
        }
        delivered += 1;
        assert!(delivered < 10_000, "greetings answer each other");
    }
    delivered
}

#[test]
fn the_first_message_tells_the_ends_and_the_next_ones_arrive() {
    let (mut one, mut two) = (Side::new(1), Side::new(7));
    one.send();
    settle(&mut one, &mut two);
    assert_eq!((one.channel.is_known(), two.channel.is_known()), (true, true));
    assert!(two.read.is_empty());
    one.send();
    two.send();
    settle(&mut one, &mut two);
    assert_eq!((two.read, one.read), (vec![1], vec![0]));
}

#[test]
fn a_gap_begins_another_connection_at_both_sides() {
    let (mut one, mut two) = (Side::new(1), Side::new(7));
    one.send();
    settle(&mut one, &mut two);
    one.send();
    one.send();
    one.sent.pop_front();
    let before = (one.begun, two.begun);
    settle(&mut one, &mut two);
    assert_eq!((one.begun, two.begun), (before.0 + 1, before.1 + 1));
    assert!(two.read.is_empty());
    one.send();
    settle(&mut one, &mut two);
    assert_eq!(two.read, [3]);
}

#[test]
fn what_came_twice_or_is_of_an_earlier_run_is_dropped() {
    let (mut one, mut two) = (Side::new(1), Side::new(7));
    one.send();
    settle(&mut one, &mut two);
    one.send();
    let again = one.sent[0];
    settle(&mut one, &mut two);
    two.receive(again.0, again.1);
    assert_eq!(two.read, [1]);

    let mut restarted = Side::new(2);
    restarted.greet();
    settle(&mut restarted, &mut two);
    two.receive(again.0, again.1);
    assert!(two.read.is_empty());
    restarted.send();
    settle(&mut restarted, &mut two);
    assert_eq!(two.read, [0]);
}

#[test]
fn a_closed_channel_reads_nothing_for_a_second() {
    let (mut one, mut two) = (Side::new(1), Side::new(7));
    one.send();
    settle(&mut one, &mut two);
    let now = epoch();
    two.channel.close(now);
    one.send();
    let (header, _) = one.sent[0];
    assert_eq!(two.channel.receive(now, header), Arrival::default());
    // Of some messages for the end before one is answered.
    let later = now + CLOSED_FOR;
    let greeted = (0..GREET_EVERY).filter(|_| {
        let arrival = two.channel.receive(later, header);
        assert!(!arrival.is_next);
        arrival.is_greeted
    });
    assert_eq!(greeted.count(), 1);
}

#[test]
fn a_header_keeps_its_bytes() {
    let end = |incarnation, number| ChannelEnd {
        incarnation: Incarnation(incarnation),
        number,
    };
    let header = Header {
        from: end(1, 2),
        to: Some(end(3, 4)),
        sequence: 5,
    };
    let mut bytes = BytesMut::new();
    header.put(&mut bytes);
    assert_eq!(bytes.len(), HEADER_BYTES);
    assert_eq!(
        &bytes[..],
        [
            0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5
        ]
    );
    let mut taken = bytes.freeze();
    assert_eq!(Header::take(&mut taken), Some(header));
    assert!(taken.is_empty());
    assert_eq!(Header::take(&mut Bytes::from_static(&[0; HEADER_BYTES])), None);
    assert_eq!(
        Header::take(&mut Bytes::from_static(&[1; HEADER_BYTES - 1])),
        None
    );
}

proptest! {
    /// Over a network that loses, doubles and delays, each side reads a run of successive messages since the last begin, and when
    /// nothing is lost any more both read all that is sent.
    #[test]
    fn what_is_read_is_a_run_without_gaps(steps in prop::collection::vec((0_u8..6, any::<bool>()), 1..200)) {
        let (mut one, mut two) = (Side::new(1), Side::new(7));
        for (step, is_first) in steps {
            let (from, to) = if is_first { (&mut one, &mut two) } else { (&mut two, &mut one) };
            match step {
                0 | 1 => from.send(),
                2 => drop(from.sent.pop_front()),
                3 => from.sent.rotate_left(usize::from(from.sent.len() > 1)),
                4 => if let Some((header, message)) = from.sent.front().copied() { to.receive(header, message) },
                _ => if let Some((header, message)) = from.sent.pop_front() { to.receive(header, message) },
            }
            for side in [&one, &two] {
                prop_assert!(side.read.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
        one.sent.clear();
        two.sent.clear();
        // Twice, since what was lost last is only found missing with the next.
        for _ in 0..3 {
            one.greet();
            two.greet();
            settle(&mut one, &mut two);
        }
        let (first, second) = (one.next, two.next);
        one.send();
        two.send();
        settle(&mut one, &mut two);
        prop_assert_eq!(two.read.last(), Some(&first));
        prop_assert_eq!(one.read.last(), Some(&second));
    }
}
