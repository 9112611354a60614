//! The connection on which this node sends to another one, and what waits for it.
//!
//! Messages wait in a queue of their own, so that the oldest can be dropped when there are too many: those that are in the buffer of
//! the socket may be half written.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use bytes::BytesMut;
use cluster::peers::{Frame, Kind};
use cluster::{ClusterId, NodeId, Outbound};
use rustls::pki_types::CertificateDer;
use tokio::sync::Notify;
use tokio_util::io::poll_read_buf;

use super::Traffic;
use crate::out_buffer::OutBuffer;
use crate::socket::Written;
use crate::stream::Stream;

/// The connection on which this node sends to another one.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) node: NodeId,
    /// As the node said in its hello.
    pub(super) cluster: Option<ClusterId>,
    /// Borrowed for one call at a time, never across a wait.
    stream: RefCell<Stream>,
    out: RefCell<OutBuffer>,
    queue: RefCell<VecDeque<Outbound>>,
    queue_bytes: Cell<usize>,
    /// It is in the list of those to write to.
    pub(super) is_dirty: Cell<bool>,
    /// The task waits until the socket takes more.
    is_blocked: Cell<bool>,
    /// It ends: the connection is broken, or not wanted any more.
    pub(super) is_closing: Cell<bool>,
    /// Wakes the task: write on, or stop.
    pub(super) changed: Notify,
    /// How long an answer takes, and by how many milliseconds the other's clock is ahead; as measured last.
    pub(super) measured: Cell<Option<Measured>>,
}

/// What was found out about a node by asking whether it is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) round_trip: std::time::Duration,
    pub(super) clock_ahead_ms: i64,
}

/// Bytes that wait for one node behind the oldest message; beyond it that one is dropped. It is as much as a leader has under way
/// to a follower (`messages_inflight_max` of a replica) with messages of a mebibyte.
///
/// The oldest itself does not count: a message may be larger than the limit, and would be dropped for the heartbeat behind it.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Messages that wait for one node at most; beyond it the oldest is dropped.
const QUEUE_MESSAGES_MAX: usize = 65_536;

/// Messages move to the buffer of the socket until it has so many bytes.
const BATCH_BYTES: usize = 256 << 10;

impl Outgoing {
    pub(super) fn new(node: NodeId, cluster: Option<ClusterId>, stream: Stream) -> Self {
        Self {
            node,
            cluster,
            stream: RefCell::new(stream),
            out: RefCell::default(),
            queue: RefCell::default(),
            queue_bytes: Cell::default(),
            is_dirty: Cell::default(),
            is_blocked: Cell::default(),
            is_closing: Cell::default(),
            changed: Notify::new(),
            measured: Cell::default(),
        }
    }

    /// Appends a message; says how many had to go for it.
    pub(super) fn push(&self, message: Outbound) -> u64 {
        let mut queue = self.queue.borrow_mut();
        let mut bytes = self.queue_bytes.get() + message.len();
        queue.push_back(message);
        let mut dropped = 0;
        while let Some(oldest) = queue.front().map(Outbound::len)
            && (queue.len() > QUEUE_MESSAGES_MAX || bytes - oldest > QUEUE_BYTES_MAX)
        {
            queue.pop_front();
            bytes -= oldest;
            dropped += 1;
        }
        self.queue_bytes.set(bytes);
        dropped
    }

    /// Appends a frame, ahead of the messages that wait.
    pub(super) fn say(&self, frame: &Frame) {
        frame.encode(self.out.borrow_mut().tail(&mut Vec::new()));
    }

    /// Gives the socket what it takes.
    pub(super) fn write(&self, spare: &mut Vec<BytesMut>, sent: &mut Traffic) -> Written {
        if self.is_blocked.get() {
            return Written::Blocked;
        }
        let mut out = self.out.borrow_mut();
        let mut stream = self.stream.borrow_mut();
        loop {
            sent.messages += self.fill(&mut out, spare);
            if out.is_empty() {
                break;
            }
            match out.write(|slices| stream.try_write(slices)) {
                Ok(0) => return Written::Failed,
                Ok(count) => sent.bytes += count as u64,
                Err(error) => return self.failed(&error),
            }
        }
        out.recycle(spare);
        match stream.try_flush() {
            Ok(()) => Written::All,
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &io::Error) -> Written {
        let is_full = error.kind() == io::ErrorKind::WouldBlock;
        self.is_blocked.set(is_full);
        if is_full {
            Written::Blocked
        } else {
            Written::Failed
        }
    }

    /// Moves messages to the buffer of the socket; says how many.
    fn fill(&self, out: &mut OutBuffer, spare: &mut Vec<BytesMut>) -> u64 {
        let mut queue = self.queue.borrow_mut();
        let mut moved = 0;
        while out.len() < BATCH_BYTES
            && let Some(message) = queue.pop_front()
        {
            let header = Frame::header(Kind::Message, message.len());
            out.tail(spare).extend_from_slice(&header);
            for piece in message.pieces() {
                out.payload(piece);
            }
            self.queue_bytes.set(self.queue_bytes.get() - message.len());
            moved += 1;
        }
        moved
    }

    /// Whether the task is to wait for the socket.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked.get()
    }

    /// Waits until more is taken. False if the connection is broken.
    pub(super) async fn writable(&self) -> bool {
        let polled = poll_fn(|context| self.stream.borrow_mut().poll_writable(context)).await;
        self.is_blocked.set(false);
        polled.is_ok()
    }

    /// Reads what has come. 0 at the end.
    pub(super) async fn read(&self, buffer: &mut BytesMut) -> usize {
        poll_fn(|context| {
            let polled = poll_read_buf(Pin::new(&mut *self.stream.borrow_mut()), context, buffer);
            match polled {
                Poll::Pending => Poll::Pending,
                Poll::Ready(result) => Poll::Ready(result.unwrap_or(0)),
            }
        })
        .await
    }

    /// What the node has shown in the handshake of TLS.
    pub(super) fn certificates(&self) -> Vec<CertificateDer<'static>> {
        self.stream.borrow().peer_certificates().to_vec()
    }

    /// Ends it.
    pub(super) fn close(&self) {
        self.is_closing.set(true);
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Runs a test with a connection, and its other end.
    fn check(test: impl AsyncFnOnce(Outgoing, tokio::net::UnixStream)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        runtime.expect("a runtime").block_on(async {
            let (here, there) = tokio::net::UnixStream::pair().expect("two ends");
            test(Outgoing::new(NodeId(2), None, Stream::Unix(here)), there).await;
        });
    }

    #[test]
    fn when_too_much_waits_the_oldest_goes() {
        check(async |outgoing, _there| {
            let half = Bytes::from(vec![0; QUEUE_BYTES_MAX / 2]);
            for _ in 0..3 {
                assert_eq!(outgoing.push(half.clone().into()), 0);
            }
            assert_eq!(outgoing.push(half.into()), 1);
            let larger = Bytes::from(vec![0; QUEUE_BYTES_MAX + 1]);
            assert_eq!(outgoing.push(larger.into()), 3);
        });
    }

    #[test]
    fn a_message_larger_than_the_limit_does_not_go_for_a_small_one() {
        check(async |outgoing, _there| {
            let larger = Bytes::from(vec![0; QUEUE_BYTES_MAX + 1]);
            assert_eq!(outgoing.push(larger.into()), 0);
            for _ in 1..QUEUE_MESSAGES_MAX {
                assert_eq!(outgoing.push(Bytes::from_static(b"heartbeat").into()), 0);
            }
        });
    }

    #[test]
    fn when_too_many_wait_the_oldest_goes() {
        check(async |outgoing, _there| {
            assert_eq!(outgoing.push(Outbound::default()), 0);
            for _ in 1..QUEUE_MESSAGES_MAX {
                assert_eq!(outgoing.push(Outbound::default()), 0);
            }
            assert_eq!(outgoing.push(Outbound::default()), 1);
        });
    }

    #[test]
    fn messages_leave_in_order_however_little_the_socket_takes() {
        check(async |outgoing, there| {
            use cluster::peers::FrameDecoder;

            let messages: Vec<_> = (0..200_u8)
                .map(|number| Bytes::from(vec![number; 10_000]))
                .collect();
            for message in &messages {
                let (head, tail) = (message.slice(..9), message.slice(9..));
                outgoing.push(Outbound::in_two(head, tail));
            }
            let (mut sent, mut found) = (Traffic::default(), Vec::new());
            let mut decoder = FrameDecoder::default();
            while found.len() < messages.len() {
                if outgoing.is_blocked() {
                    assert!(outgoing.writable().await);
                }
                assert_ne!(outgoing.write(&mut Vec::new(), &mut sent), Written::Failed);
                there.readable().await.expect("open");
                decoder.bytes().reserve(1 << 20);
                while there.try_read_buf(decoder.bytes()).is_ok() {
                    decoder.bytes().reserve(1 << 20);
                }
                while let Some(frame) = decoder.next().expect("frames") {
                    found.push(frame);
                }
            }
            let expected: Vec<_> = messages.into_iter().map(Frame::Message).collect();
            assert_eq!(found, expected);
            assert_eq!(sent.messages, 200);
        });
    }
}
