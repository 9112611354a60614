//! Memory for what is read, of all sockets together.

use broker::Event;
use mqtt::ids::ConnectionId;

use super::Driver;
use crate::clock;
use crate::handshake::HANDSHAKE_BYTES;
use crate::read_budget::Holding;
use crate::socket::Socket;

/// The node is told of the memory at the edge when it has changed by so many bytes.
const TOLD_STEP: usize = 64 * 1024;

impl Driver {
    /// Takes note of what a socket holds of a packet that is not complete, and ends connections if that is too much.
    pub(crate) fn hold(&self, socket: &Socket, now: Holding) {
        let before = socket.holding.replace(now);
        if before == now || before.bytes == 0 && now.bytes == 0 {
            return;
        }
        self.read_budget.borrow_mut().hold(socket.id, before, now);
        if now.bytes == 0 {
            self.end_reading_turn(socket.id);
        }
        self.end_overruns();
    }

    /// Whether a socket may read on, whose packet lacks `missing` bytes; if not, it is woken when it may.
    pub(crate) fn may_go_on(&self, socket: &Socket, missing: usize) -> bool {
        let mut budget = self.read_budget.borrow_mut();
        // Without a look at the clock, since this is asked for each read.
        !budget.is_tight() || budget.may_go_on(clock::instant(), socket.id, missing)
    }

    /// Whether half of the memory for packets that are not complete is taken.
    pub(crate) fn is_reading_tight(&self) -> bool {
        self.read_budget.borrow().is_tight()
    }

    /// Whether a connection's client has been let in.
    pub(crate) fn is_connected(&self, connection: ConnectionId) -> bool {
        self.node.borrow().is_connected(connection)
    }

    /// Ends the connections for whose packets there is no memory.
    pub(super) fn end_overruns(&self) {
        loop {
            let overrun = self.read_budget.borrow().overrun(clock::instant());
            let Some(connection) = overrun else { return };
            // Its task gives the memory back as soon as it runs.
            self.with_socket(connection, |socket| {
                let before = socket.holding.take();
                self.read_budget
                    .borrow_mut()
                    .hold(connection, before, Holding::default());
            });
            self.end_reading_turn(connection);
            self.step(Event::Overrun { connection });
        }
    }

    /// The node accounts for what the edge holds, too.
    pub(super) fn tell_buffered(&self) {
        let reading = self.read_budget.borrow().held() + self.read_blocks.borrow().held();
        let handshakes = self.handshakes.get() * HANDSHAKE_BYTES;
        let inbound = reading + self.overheads.get() + handshakes;
        let now = (self.waiting.get(), inbound, self.engine_held.get());
        let told = self.told.get();
        let is_close = |one: usize, other: usize| one.abs_diff(other) < TOLD_STEP;
        if is_close(now.0, told.0) && is_close(now.1, told.1) && now.2.abs_diff(told.2) < TOLD_STEP as u64 {
            return;
        }
        self.told.set(now);
        self.step_quietly(Event::Buffered {
            outbound: now.0 as u64,
            inbound: now.1 as u64,
            engine: now.2,
        });
    }

    fn end_reading_turn(&self, connection: ConnectionId) {
        let next = self
            .read_budget
            .borrow_mut()
            .end_turn(clock::instant(), connection);
        for id in next {
            self.with_socket(id, |socket| socket.changed.notify_one());
        }
    }
}
