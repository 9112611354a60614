//! What comes to the port of the nodes.
//!
//! An input is what one connection brings: a hello, then frames. Both are understood or refused, the same at once and byte by byte,
//! and what was understood comes back when it is encoded. A node that is to form a cluster is told the statements: it is bound
//! once at most.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use cluster::NodeId;
use cluster::forming::{Action, Event, Forming, Founder, Stage, Step};
use cluster::peers::{Frame, FrameDecoder, FrameError, Hello, Starts, VERSIONS};

/// Plays an input. `origin` is any instant; only differences matter. How many frames were understood.
pub fn peers(input: &[u8], origin: Instant) -> usize {
    let mut rest = BytesMut::from(input);
    let theirs = match Hello::decode(&mut rest) {
        Ok(Some(hello)) => {
            let mut again = hello.encode();
            assert_eq!(Hello::decode(&mut again), Ok(Some(hello.clone())));
            hello
        }
        Ok(None) | Err(_) => return 0,
    };
    let own = own_hello();
    // Whatever it says, there is an answer in words.
    let answers = [
        own.check(&theirs),
        own.check_clock(&theirs, own.wall, 500),
        own.check_clock(&theirs, u64::MAX, u64::MAX / 4),
    ];
    for refusal in answers.into_iter().filter_map(Result::err) {
        assert!(!refusal.text.is_empty());
    }
    let rest = rest.freeze();
    let (frames, error) = decode(&rest, rest.len().max(1));
    assert_eq!(decode(&rest, 1), (frames.clone(), error));
    for frame in &frames {
        let mut again = BytesMut::new();
        frame.encode(&mut again);
        let (back, error) = decode(&again.freeze(), usize::MAX);
        assert_eq!((&back[..], error), (std::slice::from_ref(frame), None));
    }
    tell(&theirs, &frames, origin);
    frames.len()
}

/// All frames, and why there are no more.
fn decode(bytes: &Bytes, step: usize) -> (Vec<Frame>, Option<FrameError>) {
    let (mut decoder, mut frames) = (FrameDecoder::default(), Vec::new());
    for piece in bytes.chunks(step) {
        decoder.bytes().extend_from_slice(piece);
        loop {
            match decoder.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

/// Tells a node that waits for a cluster all statements.
fn tell(theirs: &Hello, frames: &[Frame], now: Instant) {
    let own = own_hello();
    let founder = |hello: &Hello| Founder {
        node: hello.node,
        address: hello.address.clone(),
    };
    let mut forming = Forming::new(now, founder(&own), own.size.into(), own.groups, Stage::Waiting);
    let mut events = vec![Event::Met(founder(theirs))];
    let statements = frames.iter().filter_map(|frame| match frame {
        Frame::Statement(statement) => Some(Event::Told(theirs.node, statement.clone())),
        _ => None,
    });
    events.extend(statements);
    let mut bound: Option<Stage> = None;
    for event in events {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let mut actions = Vec::new();
            forming.step(now, event, &mut actions);
            for action in actions {
                if let Action::Persist(stage) = action {
                    if let (Some(Stage::Bound(step, before)), Stage::Bound(_, after)) = (&bound, &stage) {
                        assert!(*step == Step::Promised && before.is_same(after), "bound twice");
                    }
                    bound = Some(stage);
                    next = Some(Event::Persisted);
                }
            }
        }
    }
}

fn own_hello() -> Hello {
    Hello {
        versions: VERSIONS,
        node: NodeId(1),
        starts: Starts::first(2),
        wall: 1_000,
        cluster: None,
        size: 2,
        groups: 1,
        address: "a:1".parse().expect("an address"),
    }
}
