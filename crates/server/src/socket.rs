//! One client's socket: reads packets for the driver, and takes what the driver sends.
//!
//! Each has a task that reads. Writing is done by the driver at the end of a turn, straight to the socket; only when the
//! socket does not take everything, the task waits until it does and goes on. An idle socket holds no buffer.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use broker::{Event, PART_BYTES_MIN};
use bytes::{BufMut, BytesMut};
use mqtt::ids::ConnectionId;
use protocol::Packet;
use protocol::packet::{Decoder, ProtocolVersion};
use rustls::pki_types::CertificateDer;
use tokio::io::AsyncWrite;
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};
use tokio_util::io::poll_read_buf;

use crate::admission::TurnedAway;
use crate::client_address::ClientAddress;
use crate::driver::Driver;
use crate::listener::Origin;
use crate::out_buffer::OutBuffer;
use crate::read_blocks::BLOCK;
use crate::read_budget::Holding;
use crate::spoken::Spoken;
use crate::standing::Standing;
use crate::stream::Stream;

/// The side of a connection that the driver writes to.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) id: ConnectionId,
    pub(crate) peer: ClientAddress,
    /// Where it was accepted.
    pub(crate) origin: Arc<Origin>,
    /// Borrowed for one call at a time, never across a wait.
    stream: RefCell<Stream>,
    pub(crate) out: RefCell<OutBuffer>,
    /// What the connection speaks, and the largest packet it takes.
    pub(crate) speaks: Cell<(ProtocolVersion, u32)>,
    /// The node wants to hear when everything was taken.
    pub(crate) reports_drained: Cell<bool>,
    /// What of its waiting bytes the driver's sum has.
    pub(crate) counted: Cell<usize>,
    /// What the driver's budget has of its packet that is not complete.
    pub(crate) holding: Cell<Holding>,
    /// It is in the driver's list of sockets to write to.
    pub(crate) is_dirty: Cell<bool>,
    /// The task waits until the socket takes more.
    is_blocked: Cell<bool>,
    /// It is read from although much waits, until it takes something: its client may send all that it has before it reads.
    is_heard_out: Cell<bool>,
    /// Nothing more is read; it closes when everything was taken.
    pub(crate) is_closing: Cell<bool>,
    /// Wakes the task: read on, write on, or stop.
    pub(crate) changed: Notify,
    /// `None`: of a connection that needs no place.
    standing: RefCell<Option<Box<Standing>>>,
    /// Its place was given to somebody else: it ends without a farewell.
    is_cut: Cell<bool>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    All,
    /// The socket took a part; the task goes on when it takes more.
    Blocked,
    /// The connection is broken.
    Failed,
}

impl Written {
    fn by_error(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::WouldBlock {
            Self::Blocked
        } else {
            Self::Failed
        }
    }
}

/// Bytes asked for when a packet has just begun.
const READ_SIZE_MIN: usize = 1024;

/// Bytes asked of a socket at once while packets that are not complete have taken half of what they may.
const READ_SIZE_TIGHT: usize = 4 * 1024;

/// What a task does before others have their turn: packets handed over, and a share of each read by its bytes. At a few
/// microseconds each it is a millisecond at most that one busy connection costs the others, and far more than a client
/// has under way that waits for answers.
pub(crate) const WORK_AT_ONCE_MAX: usize = 256;

/// The same while many tasks are busy.
pub(crate) const WORK_AT_LEAST: usize = 8;

/// Units of the node's work that count as one packet.
const UNITS_PER_WORK: u64 = 4;

/// Bytes that are as much work as a packet: two full reads are a whole turn.
const BYTES_PER_WORK: usize = 2 * BLOCK / WORK_AT_ONCE_MAX;

/// Memory of a connection at the edge: the socket, its task, and its place in the system's list of events.
const OVERHEAD: usize = 1_536;

/// What the system gives memory by.
const PAGE: usize = 4 * 1024;

/// How long a client that is behind is not read from. Some clients send what they have under way before they read, and
/// wait for ever if the server does the same; others read slowly, and their PINGREQ has to be seen.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a closed connection's client may take to read the last packet and close.
const LINGER: Duration = Duration::from_secs(2);

impl Socket {
    pub(crate) fn new(id: ConnectionId, peer: ClientAddress, origin: Arc<Origin>, stream: Stream) -> Self {
        Self {
            id,
            peer,
            origin,
            stream: RefCell::new(stream),
            out: RefCell::default(),
            speaks: Cell::new((ProtocolVersion::V5, u32::MAX)),
            reports_drained: Cell::new(false),
            counted: Cell::default(),
            holding: Cell::default(),
            is_dirty: Cell::new(false),
            is_blocked: Cell::new(false),
            is_heard_out: Cell::new(false),
            is_closing: Cell::new(false),
            changed: Notify::new(),
            standing: RefCell::default(),
            is_cut: Cell::new(false),
        }
    }

    /// With a place that it has.
    pub(crate) fn with_standing(mut self, standing: Standing) -> Self {
        self.standing = RefCell::new(Some(Box::new(standing)));
        self
    }

    /// The client is known and takes its place.
    pub(crate) fn let_in(&self) -> Result<(), TurnedAway> {
        if let Some(standing) = self.standing.take() {
            let known = standing.let_in()?;
            self.standing.replace(Some(Box::new(known)));
        }
        Ok(())
    }

    /// It is the server's turn, or the client's.
    pub(crate) fn awaits(&self, awaits: impl FnOnce(&Standing)) {
        if let Some(standing) = self.standing.borrow().as_deref() {
            awaits(standing);
        }
    }

    /// Ends the connection at once.
    pub(crate) fn cut(&self) {
        self.is_cut.set(true);
        self.is_closing.set(true);
        self.changed.notify_one();
    }

    /// Does something that takes a while, unless the connection has to end at once.
    async fn unless_cut(&self, work: impl Future<Output = ()>) {
        let cut = async {
            while !self.is_cut.get() {
                self.changed.notified().await;
            }
        };
        tokio::select! {
            biased;
            () = cut => {}
            () = work => {}
        }
    }

    /// Gives the socket what it takes.
    pub(crate) fn write(&self, spare: &mut Vec<BytesMut>) -> Written {
        if self.is_blocked.get() {
            return Written::Blocked;
        }
        let mut out = self.out.borrow_mut();
        let mut stream = self.stream.borrow_mut();
        while !out.is_empty() {
            match out.write(|slices| stream.try_write(slices)) {
                Ok(0) => return Written::Failed,
                Ok(_) => self.is_heard_out.set(false),
                Err(error) => return Written::by_error(&error),
            }
        }
        out.recycle(spare);
        match stream.try_flush() {
            Ok(()) => Written::All,
            Err(error) => Written::by_error(&error),
        }
    }

    /// From here on the task writes.
    pub(crate) fn leave_to_task(&self) {
        self.is_blocked.set(true);
        self.changed.notify_one();
    }

    /// Waits until more is taken. False if the connection is broken.
    async fn writable(&self) -> bool {
        poll_fn(|context| self.stream.borrow_mut().poll_writable(context))
            .await
            .is_ok()
    }

    /// Tells the client that nothing more will come.
    async fn shut_down(&self) {
        let shut_down = poll_fn(|context| Pin::new(&mut *self.stream.borrow_mut()).poll_shutdown(context));
        let _ = tokio::time::timeout(LINGER, shut_down).await;
    }

    /// Lets the client read the last packet: closing with unread bytes would take it away from it.
    async fn linger(&self) {
        let mut buffer = BytesMut::with_capacity(1024);
        let discard = poll_fn(|context| {
            loop {
                buffer.clear();
                match self.poll_read(context, &mut buffer) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                    Poll::Ready(Ok(_)) => {}
                }
            }
        });
        let _ = tokio::time::timeout(LINGER, discard).await;
    }

    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut impl BufMut) -> Poll<io::Result<usize>> {
        poll_read_buf(Pin::new(&mut *self.stream.borrow_mut()), context, buffer)
    }

    /// What the client has shown in the handshake of TLS.
    pub(crate) fn peer_certificates(&self) -> Vec<CertificateDer<'static>> {
        self.stream.borrow().peer_certificates().to_vec()
    }

    /// Bytes of a message that is not complete, in the layer of WebSocket.
    fn below(&self) -> usize {
        self.stream.borrow().unfinished()
    }

    /// Memory of a connection at the edge that neither packets nor what waits to be written take.
    pub(crate) fn overhead(&self) -> usize {
        OVERHEAD + self.stream.borrow().overhead()
    }

    /// Bytes that wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.out.borrow().len()
    }

    /// Whether more is waiting than a client may leave unread while it goes on sending.
    ///
    /// Messages that wait are at most `outbound_bytes_max` bytes and one message. From a client that is heard out so many
    /// bytes of answers are taken besides.
    pub(crate) fn is_behind(&self, outbound_bytes_max: usize) -> bool {
        let out = self.out.borrow();
        let most = if self.is_heard_out.get() {
            2 * outbound_bytes_max + out.largest_message()
        } else {
            outbound_bytes_max
        };
        out.len() > most
    }
}

/// Reads packets of a connection that the driver knows until it ends.
pub(crate) async fn run(driver: Rc<Driver>, socket: Rc<Socket>) {
    let mut reading = Reading {
        decoder: driver.decoder(),
        is_let_in: false,
        rest: BytesMut::new(),
        told: 0,
        is_detached: false,
        ends_with_ack: false,
        is_broken: false,
        work: 0,
    };
    reading.packets(&driver, &socket).await;
    // Closing may take a while.
    reading.rest = BytesMut::new();
    driver.hold(&socket, Holding::default());
    driver.lost(socket.id).await;
    // Memory for the end is taken at the end: most tasks are those of idle connections.
    Box::pin(end(driver, socket, reading.is_broken)).await;
}

/// Runs while nothing is read from a client because it is behind.
type Patience = Pin<Box<Sleep>>;

/// Begins to run, or goes on, with a client that is behind.
fn patience_with(driver: &Driver, socket: &Socket, running: Option<Patience>) -> Option<Patience> {
    let is_waiting = driver.is_behind(socket) && !socket.is_heard_out.get();
    is_waiting.then(|| running.unwrap_or_else(|| Box::pin(sleep(PATIENCE))))
}

async fn run_out(patience: &mut Option<Patience>) {
    if let Some(patience) = patience {
        patience.as_mut().await;
    }
}

/// Says what is left to say, unless nobody listens or the place is needed for another connection.
async fn end(driver: Rc<Driver>, socket: Rc<Socket>, is_broken: bool) {
    socket.unless_cut(finish(&driver, &socket)).await;
    driver.remove(&socket);
    if !is_broken {
        let farewell = async {
            socket.shut_down().await;
            socket.linger().await;
        };
        socket.unless_cut(farewell).await;
    }
}

/// Writes after the socket did not take everything. False if the connection is broken.
fn write_on(driver: &Driver, socket: &Socket) -> bool {
    socket.is_blocked.set(false);
    let written = driver.write(socket);
    socket.is_blocked.set(written == Written::Blocked);
    written != Written::Failed
}

/// What was said last, DISCONNECT above all, leaves before the connection does.
async fn finish(driver: &Driver, socket: &Socket) {
    let written = async {
        socket.is_blocked.set(false);
        while driver.write(socket) == Written::Blocked {
            if !socket.writable().await {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, written).await;
}

/// The reading side.
struct Reading {
    decoder: Decoder,
    /// Its client may send packets of any size that the server takes.
    is_let_in: bool,
    /// The beginning of a packet that is not complete yet.
    rest: BytesMut,
    /// Bytes of `rest` that the node was told of as a sign of life.
    told: u32,
    /// `rest` is in memory of its own, not in the buffer that all sockets share.
    is_detached: bool,
    /// The last packet needs no answer.
    ends_with_ack: bool,
    /// Nobody is at the other end any more, not even to read.
    is_broken: bool,
    /// What was done since others had their turn.
    work: usize,
}

impl Reading {
    async fn packets(&mut self, driver: &Rc<Driver>, socket: &Rc<Socket>) {
        let mut patience = None;
        loop {
            if socket.is_closing.get() || driver.may_read(socket) && !self.decode(driver, socket) {
                return;
            }
            // Decoding may have closed the connection, or filled what waits.
            if socket.is_closing.get() {
                return;
            }
            if driver.is_turn_long(self.work) {
                self.work = 0;
                tokio::task::yield_now().await;
                if !driver.may_read(socket) {
                    self.detach_rest();
                }
                continue;
            }
            let may_read = driver.may_read(socket) && self.may_go_on(driver, socket);
            patience = patience_with(driver, socket, patience);
            tokio::select! {
                biased;
                () = socket.changed.notified() => {}
                is_writable = socket.writable(), if socket.is_blocked.get() => {
                    if !is_writable || !write_on(driver, socket) {
                        return;
                    }
                }
                is_open = self.fill(driver, socket), if may_read => if !is_open { return },
                () = run_out(&mut patience), if patience.is_some() => socket.is_heard_out.set(true),
            }
        }
    }

    /// Whether there is memory for what is missing to a packet that has begun.
    fn may_go_on(&self, driver: &Driver, socket: &Socket) -> bool {
        if !self.is_let_in {
            return true;
        }
        let missing = match (self.rest.is_empty(), socket.below()) {
            (true, 0) => return true,
            // How long the message is that WebSocket has begun is not told.
            (true, _) => driver.packet_size_max() as usize,
            (false, _) => self.decoder.missing(&self.rest),
        };
        driver.may_go_on(socket, missing)
    }

    /// Takes what the socket has. False at its end.
    async fn fill(&mut self, driver: &Driver, socket: &Socket) -> bool {
        poll_fn(|context| {
            let polled = self.poll_fill(driver, socket, context);
            if polled.is_pending() {
                self.work = 0;
                self.hold(driver, socket);
            }
            polled.map(|result| {
                let count = result.unwrap_or_else(|_| {
                    self.is_broken = true;
                    0
                });
                let work = 1 + count / BYTES_PER_WORK;
                self.work += work;
                driver.count_work(work as u64 * UNITS_PER_WORK);
                driver.observed.borrow_mut().bytes_received += count as u64;
                count > 0
            })
        })
        .await
    }

    fn poll_fill(
        &mut self,
        driver: &Driver,
        socket: &Socket,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if !self.rest.is_empty() {
            // Not more than has come already, whatever length is announced. And nothing of the next packet, which would
            // keep the memory of this one.
            let room = self.rest.len().clamp(READ_SIZE_MIN, BLOCK);
            let missing = self.decoder.missing(&self.rest).clamp(1, room);
            self.rest.reserve(missing);
            return socket.poll_read(context, &mut (&mut self.rest).limit(missing));
        }
        let most = if driver.is_reading_tight() {
            READ_SIZE_TIGHT
        } else {
            BLOCK
        };
        let mut blocks = driver.read_blocks.borrow_mut();
        let room = blocks.room();
        let polled = socket.poll_read(context, &mut (&mut *room).limit(most));
        // Who has read nothing keeps nothing of the block.
        if !room.is_empty() {
            self.rest = room.split();
            self.is_detached = false;
        }
        polled
    }

    /// Tells the budget what is held of a packet that is not complete.
    fn hold(&self, driver: &Driver, socket: &Socket) {
        // A large buffer that grew has room that was never touched, for which the system has given no memory.
        let rest = self.rest.len().next_multiple_of(PAGE).min(self.rest.capacity());
        let rest = if self.rest.is_empty() { 0 } else { rest };
        driver.hold(
            socket,
            Holding {
                bytes: rest + socket.below(),
                is_stranger: !self.is_let_in,
            },
        );
    }

    /// Whether a client that has only just been let in may send larger packets from now on.
    fn look_who_it_is(&mut self, driver: &Driver, socket: &Socket) {
        if !self.is_let_in && driver.is_connected(socket.id) {
            self.is_let_in = true;
            self.decoder.set_packet_size_max(driver.packet_size_max());
        }
    }

    /// Hands over complete packets, as many as make a turn. False if nothing more is to be read.
    fn decode(&mut self, driver: &Driver, socket: &Socket) -> bool {
        let goes_on = self.decode_packets(driver, socket);
        if goes_on {
            self.hold(driver, socket);
        }
        goes_on
    }

    fn decode_packets(&mut self, driver: &Driver, socket: &Socket) -> bool {
        while !self.rest.is_empty() {
            self.look_who_it_is(driver, socket);
            match self.decoder.decode(&mut self.rest) {
                Ok(Some(packet)) => {
                    self.told = 0;
                    self.ends_with_ack = matches!(packet, Packet::PubAck(_) | Packet::PubComp(_));
                    if matches!(packet, Packet::Connect(_)) && !driver.may_connect(socket) {
                        return false;
                    }
                    let units = driver.received(socket.id, packet);
                    driver.count_work(UNITS_PER_WORK);
                    self.work += 1 + usize::try_from(units / UNITS_PER_WORK).unwrap_or(WORK_AT_ONCE_MAX);
                    if socket.is_closing.get() {
                        return false;
                    }
                    if !driver.may_read(socket) {
                        self.detach_rest();
                        return true;
                    }
                    if driver.is_turn_long(self.work) {
                        return true;
                    }
                }
                Ok(None) => {
                    self.tell_of_part(driver, socket);
                    self.detach_rest();
                    return true;
                }
                Err(error) => {
                    let spoken = Spoken::of(&self.rest).filter(|_| self.decoder.version().is_none());
                    if let Some(spoken) = spoken {
                        let (peer, listener) = (socket.peer, &socket.origin.listener);
                        tracing::info!(%peer, %listener, "rejected connection: {}", spoken.at_plain());
                    }
                    driver.step(Event::Violated {
                        connection: socket.id,
                        error,
                    });
                    return false;
                }
            }
        }
        self.rest = BytesMut::new();
        self.acknowledge_at_once(socket);
        true
    }

    /// Tells the client's TCP at once that an acknowledgement has arrived.
    ///
    /// Nothing answers a PUBACK, so the system would wait 40 ms for something to send its own acknowledgement with; a
    /// client that has not turned off Nagle's algorithm holds back its next request for as long.
    #[cfg(target_os = "linux")]
    fn acknowledge_at_once(&self, socket: &Socket) {
        if self.ends_with_ack
            && socket.out.borrow().is_empty()
            && let Some(tcp) = socket.stream.borrow().tcp()
        {
            // It only saves time: without it everything works as well.
            let _ = tcp.set_quickack(true);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn acknowledge_at_once(&self, _socket: &Socket) {}

    /// The bytes of a long packet count for its sender's Keep Alive.
    fn tell_of_part(&mut self, driver: &Driver, socket: &Socket) {
        let arrived = u32::try_from(self.rest.len()).unwrap_or(u32::MAX);
        if arrived.saturating_sub(self.told) as usize >= PART_BYTES_MIN {
            self.told = arrived;
            driver.step(Event::PartReceived {
                connection: socket.id,
            });
        }
    }

    /// What waits, waits in memory of its own.
    fn detach_rest(&mut self) {
        if !self.is_detached {
            let mut rest = BytesMut::with_capacity(self.rest.len());
            rest.extend_from_slice(&self.rest);
            self.rest = rest;
            self.is_detached = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an idle connection takes beside the node's state. What grows it has to be worth it for every one of them.
    #[test]
    fn a_connection_stays_small() {
        let (socket, task) = (size_of::<Socket>(), task_size(run));
        assert!(socket <= 272, "{socket} bytes");
        assert!(task <= 384, "{task} bytes");
    }

    fn task_size<F: Future>(_: impl Fn(Rc<Driver>, Rc<Socket>) -> F) -> usize {
        size_of::<F>()
    }
}
