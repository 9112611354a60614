//! Runs a [`Session`] on tokio: one task per client that owns its session, its socket and its buffers.

pub(crate) mod streams;
pub(crate) mod tls;
mod transport;

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::BytesMut;
use protocol::packet::{Decoder, ProtocolVersion, encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use self::streams::{StreamKind, StreamSender, Streams};
use self::tls::Tls;
use self::transport::Transport;
use crate::clock;
use crate::core::{
    Action, ConnectionState, Event, Operation, OperationError, OperationId, Outcome, Session, StreamId,
};

/// What the handles of a client ask its task for.
#[derive(Debug)]
pub(crate) enum Command {
    Submit {
        operation: Operation,
        timeout: Duration,
        /// Receives what the operation's stream receives.
        stream: Option<(StreamId, StreamSender)>,
        done: oneshot::Sender<Result<Outcome, OperationError>>,
    },
    /// Nobody reads the stream any more.
    EndStream(StreamId, StreamKind),
    /// End the session; `done` when the DISCONNECT is written.
    Disconnect { done: oneshot::Sender<()> },
}

/// What went wrong with the transport last; the session does not know.
pub(crate) type TransportError = watch::Sender<Option<std::sync::Arc<io::Error>>>;

pub(crate) struct Driver {
    session: Session,
    address: String,
    tls: Option<Tls>,
    commands: mpsc::Receiver<Command>,
    state: watch::Sender<ConnectionState>,
    transport_error: TransportError,
    connecting: Option<Opening>,
    reader: Option<ReadHalf<Box<dyn Transport>>>,
    writer: Option<WriteHalf<Box<dyn Transport>>>,
    decoder: Decoder,
    packet_size_max: u32,
    received: BytesMut,
    to_write: BytesMut,
    operations: HashMap<OperationId, Caller>,
    last_operation: u64,
    streams: Streams,
    disconnected: Option<oneshot::Sender<()>>,
    actions: Vec<Action>,
}

type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send>>;

/// Where a driver gets its work from and reports to.
pub(crate) struct Channels {
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) state: watch::Sender<ConnectionState>,
    pub(crate) transport_error: TransportError,
}

/// Who waits for an operation.
struct Caller {
    done: oneshot::Sender<Result<Outcome, OperationError>>,
    /// The stream that the operation begins.
    stream: Option<(StreamId, StreamKind)>,
}

/// Why the task woke up.
enum Wake {
    Command(Option<Command>),
    Opened(io::Result<Box<dyn Transport>>),
    Read(io::Result<usize>),
    Wrote(io::Result<usize>),
    Room,
    Deadline,
}

impl Driver {
    pub(crate) fn new(
        session: Session,
        packet_size_max: u32,
        address: String,
        tls: Option<Tls>,
        channels: Channels,
    ) -> Self {
        Self {
            session,
            address,
            tls,
            commands: channels.commands,
            state: channels.state,
            transport_error: channels.transport_error,
            connecting: None,
            reader: None,
            writer: None,
            decoder: Decoder::for_client(packet_size_max),
            packet_size_max,
            received: BytesMut::new(),
            to_write: BytesMut::new(),
            operations: HashMap::new(),
            last_operation: 0,
            streams: Streams::default(),
            disconnected: None,
            actions: Vec::new(),
        }
    }

    /// Runs until the session has ended, or every handle is gone.
    pub(crate) async fn run(mut self) {
        self.step(Event::Start);
        self.execute().await;
        while !self.session.is_ended() {
            match self.wait().await {
                Wake::Command(command) => self.take_commands(command),
                Wake::Opened(result) => self.opened(result),
                Wake::Read(result) => self.read(result),
                Wake::Wrote(Ok(_)) => {}
                Wake::Wrote(Err(error)) => self.transport_failed(error),
                Wake::Room => {}
                Wake::Deadline => self.step(Event::Timeout),
            }
            for delivery in self.streams.hand_over() {
                self.step(Event::Taken(delivery));
            }
            self.execute().await;
        }
        self.refuse_commands().await;
    }

    async fn wait(&mut self) -> Wake {
        let deadline = self.session.deadline();
        let takes_commands = self.to_write.len() < TO_WRITE_BYTES_MAX;
        tokio::select! {
            result = write(&mut self.writer, &mut self.to_write) => Wake::Wrote(result),
            result = read(&mut self.reader, &mut self.received) => Wake::Read(result),
            command = self.commands.recv(), if takes_commands => Wake::Command(command),
            result = opening(&mut self.connecting) => Wake::Opened(result),
            () = self.streams.room() => Wake::Room,
            () = until(deadline) => Wake::Deadline,
        }
    }

    /// Takes everything that is waiting, so that it leaves in one write.
    fn take_commands(&mut self, first: Option<Command>) {
        let Some(first) = first else {
            self.step(Event::Disconnect);
            return;
        };
        self.command(first);
        for _ in 0..COMMANDS_PER_WAKE {
            let Ok(command) = self.commands.try_recv() else {
                break;
            };
            self.command(command);
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Submit {
                operation,
                timeout,
                stream,
                done,
            } => {
                if let Some((stream, sender)) = stream {
                    self.streams.add(stream, sender);
                }
                let stream = match &operation {
                    Operation::Subscribe { stream, .. } => Some((*stream, StreamKind::Subscription)),
                    Operation::Watch { stream, .. } => Some((*stream, StreamKind::Watch)),
                    _ => None,
                };
                self.submit(operation, timeout, Some(Caller { done, stream }));
            }
            Command::EndStream(stream, kind) => self.end_stream(stream, kind),
            Command::Disconnect { done } => {
                self.disconnected = Some(done);
                self.step(Event::Disconnect);
            }
        }
    }

    fn submit(&mut self, request: Operation, timeout: Duration, caller: Option<Caller>) {
        self.last_operation += 1;
        let operation = OperationId(self.last_operation);
        if let Some(caller) = caller {
            self.operations.insert(operation, caller);
        }
        self.step(Event::Submit {
            operation,
            request,
            timeout,
        });
    }

    fn end_stream(&mut self, stream: StreamId, kind: StreamKind) {
        for delivery in self.streams.remove(stream) {
            self.step(Event::Taken(delivery));
        }
        let operation = match kind {
            StreamKind::Subscription => Operation::Unsubscribe { stream },
            StreamKind::Watch => Operation::Unwatch { stream },
        };
        self.submit(operation, UNSUBSCRIBE_TIMEOUT, None);
    }

    fn opened(&mut self, result: io::Result<Box<dyn Transport>>) {
        self.connecting = None;
        match result {
            Ok(transport) => {
                let (reader, writer) = tokio::io::split(transport);
                (self.reader, self.writer) = (Some(reader), Some(writer));
                self.decoder = Decoder::for_client(self.packet_size_max);
                self.step(Event::TransportOpened);
            }
            Err(error) => self.transport_failed(error),
        }
    }

    fn read(&mut self, result: io::Result<usize>) {
        match result {
            Ok(0) => self.transport_failed(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => self.transport_failed(error),
            Ok(_) => loop {
                match self.decoder.decode(&mut self.received) {
                    Ok(Some(packet)) => self.step(Event::Received(packet)),
                    Ok(None) => break,
                    Err(error) => {
                        self.step(Event::Malformed(error.reason_code()));
                        break;
                    }
                }
            },
        }
    }

    fn transport_failed(&mut self, error: io::Error) {
        self.transport_error
            .send_replace(Some(std::sync::Arc::new(error)));
        self.to_write.clear();
        self.step(Event::TransportClosed);
    }

    fn step(&mut self, event: Event) {
        self.session.step(clock::now(), event, &mut self.actions);
    }

    async fn execute(&mut self) {
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                self.execute_one(action).await;
            }
        }
    }

    async fn execute_one(&mut self, action: Action) {
        match action {
            Action::Open => {
                self.connecting = Some(Box::pin(transport::open(self.address.clone(), self.tls.clone())));
            }
            Action::Close => self.close().await,
            Action::Send(packet) => {
                // The session has checked the server's limit; the format's own is far above ours.
                let encoded = encode(&packet, ProtocolVersion::V5, u32::MAX, &mut self.to_write);
                if encoded.is_err() {
                    self.step(Event::TransportClosed);
                }
            }
            Action::Deliver {
                delivery,
                streams,
                item,
            } => {
                if self.streams.deliver(Some(delivery), &streams, &item) {
                    self.step(Event::Taken(delivery));
                }
            }
            Action::Gap(stream) => {
                self.streams.gap(stream);
            }
            Action::EndStream { stream, error } => self.streams.end(stream, error),
            Action::Complete { operation, result } => self.complete(operation, result),
            Action::StateChanged(state) => {
                self.state.send_replace(state);
            }
        }
    }

    fn complete(&mut self, operation: OperationId, result: Result<Outcome, OperationError>) {
        let Some(Caller { done, stream }) = self.operations.remove(&operation) else {
            return;
        };
        // A caller that gave up has dropped its end; nobody will read the stream that it asked for.
        if let (Err(Ok(_)), Some((stream, kind))) = (done.send(result), stream) {
            self.end_stream(stream, kind);
        }
    }

    /// Writes what was sent, for a moment at most, and closes.
    async fn close(&mut self) {
        self.connecting = None;
        self.reader = None;
        if let Some(mut writer) = self.writer.take() {
            let _ = timeout(CLOSE_TIMEOUT, async {
                writer.write_all(&self.to_write).await?;
                writer.shutdown().await
            })
            .await;
        }
        self.to_write.clear();
        self.received.clear();
    }

    /// The session has ended: whoever still asks is told so.
    async fn refuse_commands(mut self) {
        if let Some(done) = self.disconnected.take() {
            let _ = done.send(());
        }
        self.commands.close();
        while let Some(command) = self.commands.recv().await {
            match command {
                Command::Submit { done, .. } => {
                    let _ = done.send(Err(OperationError::Ended));
                }
                Command::Disconnect { done } => {
                    let _ = done.send(());
                }
                Command::EndStream(..) => {}
            }
        }
    }
}

async fn read(
    reader: &mut Option<ReadHalf<Box<dyn Transport>>>,
    received: &mut BytesMut,
) -> io::Result<usize> {
    let Some(reader) = reader else {
        return std::future::pending().await;
    };
    received.reserve(READ_BYTES);
    reader.read_buf(received).await
}

async fn write(
    writer: &mut Option<WriteHalf<Box<dyn Transport>>>,
    to_write: &mut BytesMut,
) -> io::Result<usize> {
    match writer {
        Some(writer) if !to_write.is_empty() => {
            let written = writer.write_buf(to_write).await?;
            if to_write.is_empty() {
                writer.flush().await?;
            }
            Ok(written)
        }
        _ => std::future::pending().await,
    }
}

async fn opening(connecting: &mut Option<Opening>) -> io::Result<Box<dyn Transport>> {
    match connecting {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<std::time::Instant>) {
    match deadline {
        Some(deadline) => sleep_until(Instant::from_std(deadline)).await,
        None => std::future::pending().await,
    }
}

/// What one read may bring.
const READ_BYTES: usize = 64 * 1024;
/// With this much to write no command is taken, so that callers notice a server that does not read.
const TO_WRITE_BYTES_MAX: usize = 1024 * 1024;
/// Commands taken at once before the socket has its turn.
const COMMANDS_PER_WAKE: usize = 1024;
/// How long a last packet may take to leave.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Nobody waits for the end of a subscription that was dropped.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(30);
