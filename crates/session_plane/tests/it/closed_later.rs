//! Rule `loser-released`: of a client's connections on several sides of a split only the latest stays open, also
//! where the latest has closed.

use cluster::session_plane::Hlc;
use session_plane::connecting::KnownSession;
use session_plane::wills::WillEnd;
use session_plane::{EntryId, EntryKind, Run, SessionExpiry};

use super::connections::{CONNECTING, Socket};
use super::machine::Value;
use super::network::Way;
use super::world::World;

/// Connection that had its CONNACK.
#[derive(Debug, Clone)]
pub(super) struct MadeConnection {
    socket: Socket,
    number: u8,
    /// Place among the connections of the client.
    order: (Hlc, Run),
    accepted_at: u64,
    closed_at: Option<u64>,
    /// Shortest interval that it has said.
    expiry: SessionExpiry,
}

impl MadeConnection {
    /// The other connection was made later, and has closed. One that was accepted behind that has seen it.
    fn is_overtaken_by(&self, other: &MadeConnection) -> bool {
        let has_closed = other.closed_at.is_some_and(|closed| closed > self.accepted_at);
        self.number == other.number && other.order > self.order && has_closed
    }

    /// Its session may have ended, which leaves nothing of the connection.
    fn may_have_ended(&self, now: u64) -> bool {
        let ends = self.expiry.duration().zip(self.closed_at);
        ends.is_some_and(|(expiry, closed)| closed + u64::try_from(expiry.as_millis()).expect("short") <= now)
    }
}

impl World {
    /// A connection has its CONNACK.
    pub(super) fn note_made(&mut self, socket: Socket, number: u8, session: &KnownSession<Value>) {
        let Some(run) = self.machines[&socket.node].plane().map(|plane| plane.run()) else {
            return;
        };
        let connections = session.entries().of_kind(EntryKind::Connection);
        let own = connections.filter(|(dot, _)| dot.run == run).last();
        let Some((_, own)) = own else {
            self.fail(format!("{socket:?} is accepted without an entry of it"));
            return;
        };
        let order = (own.clock, run);
        self.made_connections.push(MadeConnection {
            socket,
            number,
            order,
            accepted_at: self.now,
            closed_at: None,
            expiry: self.expiry_of(socket),
        });
        self.note_order(socket, order);
    }

    /// Connections have closed, or are lost with their node.
    pub(super) fn note_made_closed(&mut self, is_of: impl Fn(Socket) -> bool) {
        let now = self.now;
        for at in 0..self.made_connections.len() {
            let made = &self.made_connections[at];
            if made.closed_at.is_none() && is_of(made.socket) {
                let expiry = made.expiry.min(self.expiry_of(made.socket));
                let made = &mut self.made_connections[at];
                (made.closed_at, made.expiry) = (Some(now), expiry);
            }
        }
    }

    /// An operator has ended the session of a client.
    pub(super) fn forget_made(&mut self, number: u8) {
        self.made_connections.retain(|made| made.number != number);
    }

    /// No connection is open if a later one of its client has closed.
    ///
    /// The end of a session leaves nothing of its connections. Where wall clocks decide which connection is the
    /// later one, a CONNECT may be earlier than what it has seen.
    pub(super) fn are_overtaken_closed(&self) -> Result<(), String> {
        for number in CONNECTING {
            let made = self.made_connections.iter().filter(|made| made.number == number);
            let made: Vec<&MadeConnection> = made.collect();
            let has_ended = made.iter().any(|made| made.may_have_ended(self.now));
            if has_ended || self.goes_by_clocks(number) {
                continue;
            }
            for open in made.iter().filter(|made| made.closed_at.is_none()) {
                if let Some(later) = made.iter().find(|later| open.is_overtaken_by(later)) {
                    return Err(format!("{open:?} is open, and {later:?} was later"));
                }
            }
        }
        Ok(())
    }
}

/// Milliseconds in which a node is given up, and the sides agree.
const LONG: u64 = 3_000;
/// Client whose session does not expire.
const CLIENT: u8 = CONNECTING.start + 1;

/// The node has no connection to the others, or has them again.
fn cut_off(world: &mut World, node: u64, is_cut: bool) {
    for to in (1..=3).filter(|to| *to != node) {
        match is_cut {
            true => world.network.cut(Way { from: node, to }),
            false => world.network.heal(),
        }
    }
}

fn connect(world: &mut World, node: u64) -> Socket {
    world.connect_client(node, CLIENT);
    world.pass(LONG).expect("nothing goes wrong");
    world.live_socket(CLIENT).expect("the client is connected")
}

/// A world of three nodes. The client is connected at the first; on the other side of a split it has connected at
/// the second one, and has closed that connection again.
fn closed_on_the_other_side(is_known_before: bool) -> (World, Socket) {
    let mut world = World::new(1, 3);
    world.rest().expect("three nodes come to rest");
    let older = if is_known_before {
        Some(connect(&mut world, 1))
    } else {
        None
    };
    cut_off(&mut world, 1, true);
    world.pass(LONG).expect("nothing goes wrong");
    let older = older.unwrap_or_else(|| connect(&mut world, 1));
    let later = connect(&mut world, 2);
    assert!(later > older, "{later:?}");
    world.close(later, world.rest_of(later, WillEnd::Dropped));
    world.pass(LONG).expect("nothing goes wrong");
    (world, older)
}

#[test]
fn a_connection_is_released_if_a_later_one_has_closed_on_the_other_side() {
    for is_known_before in [true, false] {
        let (mut world, older) = closed_on_the_other_side(is_known_before);
        let left = world.expiries_at(2, CLIENT);
        assert_eq!(left.len(), 1);
        assert!(world.sockets.contains_key(&older), "nobody reaches it");
        cut_off(&mut world, 1, false);
        world.rest().expect("the older connection is released");
        assert!(!world.sockets.contains_key(&older));
        let stays = |expiry: &EntryId| world.expiries_at(2, CLIENT).contains(expiry);
        assert!(left.iter().all(stays), "it counts from then on");
        world.check().expect("all owners have the same");
    }
}
