//! The beginning of a connection between two nodes: both say hello, and both say whether they go on.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use cluster::peers::{
    Frame, FrameDecoder, FrameError, HELLO_BYTES_MAX, Hello, HelloError, Refusal, RefusalCode,
};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::Shared;
use super::accepting::Proof;
use super::past::Refuser;
use crate::clock;
use crate::stream::Stream;

/// A connection on which both sides go on.
#[derive(Debug)]
pub(super) struct Meeting {
    pub(super) theirs: Hello,
    pub(super) stream: Stream,
    /// With what has come after the welcome.
    pub(super) decoder: FrameDecoder,
}

/// Why a connection came to nothing.
#[derive(Debug, Error)]
pub(super) enum MeetingError {
    /// It could not be made.
    #[error("{0}")]
    Unreachable(io::Error),
    /// Its address has no such meaning.
    #[error("cannot find the address: {0}")]
    Name(io::Error),
    /// The name leads to another machine, where nobody may talk in clear.
    #[error("it is not on this machine: cluster.insecure_peers is for loopback addresses only")]
    NotLoopback,
    /// It took too long.
    #[error("no answer within {0:?}")]
    Silent(Duration),
    /// In the handshake of TLS.
    #[error("TLS: {}", super::tls::explain(.0))]
    Tls(io::Error),
    /// While hello was said.
    #[error("the connection was lost: {0}")]
    Lost(io::Error),
    /// The other side went away without a word.
    #[error("the connection was closed")]
    Closed,
    /// What is there is no node.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// What is there does not keep to the protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Too many nodes say hello.
    #[error("too many nodes say hello at once")]
    TooMany,
    /// It said something else than whether it goes on.
    #[error("it does not keep to the protocol")]
    Unexpected,
    /// This node does not go on.
    #[error("{1}")]
    RefusedHere(Box<Hello>, Refusal),
    /// The other one does not go on.
    #[error("{1}")]
    RefusedThere(Box<Hello>, Refusal),
}

impl MeetingError {
    /// Which node it was, if that is known, and why it came to nothing.
    pub(super) fn refusal(&self) -> Option<(&Hello, &Refusal)> {
        match self {
            Self::RefusedHere(hello, refusal) | Self::RefusedThere(hello, refusal) => Some((hello, refusal)),
            _ => None,
        }
    }

    /// Whether nothing is wrong: an address leads to this node, or to one that is connected by another address.
    pub(super) fn is_harmless(&self) -> bool {
        self.refusal()
            .is_some_and(|(_, refusal)| refusal.code.is_harmless())
    }

    /// For figures.
    pub(super) fn cause(&self) -> &'static str {
        match (self, self.refusal()) {
            (Self::Tls(_), _) => "tls",
            (_, Some((_, refusal))) => cause_of(refusal.code),
            _ => "protocol",
        }
    }
}

/// For figures, and for the names of conditions.
pub(crate) fn cause_of(code: RefusalCode) -> &'static str {
    match code {
        RefusalCode::Version => "version",
        RefusalCode::Cluster => "cluster",
        RefusalCode::NotAMember => "not_a_member",
        RefusalCode::SameNode | RefusalCode::NodeTwice => "same_node",
        RefusalCode::Clock => "clock",
        RefusalCode::Size | RefusalCode::Groups => "settings",
        RefusalCode::Stopped => "stopped",
        RefusalCode::OlderDisk => "rolled_back",
        RefusalCode::Aside => "aside",
        RefusalCode::Itself | RefusalCode::Connected | RefusalCode::Other(_) => "other",
    }
}

/// How long the other side of a connection may take for its hello, and for its verdict. A node that looks whether another one with
/// the same id is alive takes [`super::SILENCE_MAX`] and a little more.
const MEETING_MAX: Duration = Duration::from_secs(4);

/// How long a node that connects may take for its hello: it sends it without waiting for anything.
const HELLO_MAX: Duration = Duration::from_secs(2);

/// How long the other side may take to read why it is refused.
const LINGER: Duration = Duration::from_secs(1);

/// Of a connection that this node has made.
pub(super) async fn by_dialling(shared: &Shared, stream: Stream) -> Result<Meeting, MeetingError> {
    let mut meeting = Beginning::new(stream);
    within(async {
        let (own, asked) = (shared.hello(), clock::instant());
        meeting.write(&own.encode()).await?;
        let theirs = meeting.hello().await?;
        let received = shared.clock.system();
        let said = meeting.frame().await?;
        let checked = match said {
            Frame::Welcome => Ok(()),
            Frame::Refused(refusal) => return Err(shared.refused_there(theirs, refusal)),
            _ => return Err(MeetingError::Unexpected),
        };
        let checked = checked
            .and_then(|()| own.check_clock(&theirs, received.wall, shared.settings.clock_skew_max_ms))
            .and_then(|()| shared.check(&own, &theirs))
            .and_then(|()| shared.check_alone(&theirs))
            .and_then(|()| shared.check_not_connected(&theirs));
        if checked.is_ok() {
            shared.heard_clock(theirs.node, asked, received.instant, theirs.wall);
        }
        meeting.answer(theirs, checked).await
    })
    .await
}

/// Of a connection that another node has made.
pub(super) async fn by_accepting(
    shared: &Shared,
    stream: Stream,
    proof: &Proof,
) -> Result<Meeting, MeetingError> {
    let mut meeting = Beginning::new(stream);
    within(async {
        let theirs = timeout(HELLO_MAX, meeting.hello()).await;
        let theirs = theirs.unwrap_or(Err(MeetingError::Silent(HELLO_MAX)))?;
        let own = shared.hello();
        let mut checked = shared.check(&own, &theirs);
        if checked.is_ok() {
            proof.given(shared)?;
            checked = shared.check_alone_patiently(&theirs).await;
        }
        // The clock is read now: the other side takes it as of the moment it is sent.
        let own = shared.hello();
        meeting.write(&own.encode()).await?;
        let mut met = meeting.answer(theirs, checked).await?;
        match met.frame().await? {
            Frame::Welcome => Ok(met),
            Frame::Refused(refusal) => Err(shared.refused_there(met.theirs, refusal)),
            _ => Err(MeetingError::Unexpected),
        }
    })
    .await
}

impl Shared {
    /// The other side does not go on.
    fn refused_there(&self, theirs: Hello, refusal: Refusal) -> MeetingError {
        let (node, cluster) = (theirs.node, theirs.cluster);
        self.heed(&refusal, Refuser { node, cluster });
        MeetingError::RefusedThere(theirs.into(), refusal)
    }
}

async fn within(
    meeting: impl Future<Output = Result<Meeting, MeetingError>>,
) -> Result<Meeting, MeetingError> {
    timeout(MEETING_MAX, meeting)
        .await
        .unwrap_or(Err(MeetingError::Silent(MEETING_MAX)))
}

/// A connection whose other side is not known yet.
struct Beginning {
    stream: Option<Stream>,
    decoder: FrameDecoder,
}

impl Beginning {
    fn new(stream: Stream) -> Self {
        Self {
            stream: Some(stream),
            decoder: FrameDecoder::default(),
        }
    }

    fn stream(&mut self) -> Result<&mut Stream, MeetingError> {
        self.stream.as_mut().ok_or(MeetingError::Closed)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), MeetingError> {
        let stream = self.stream()?;
        stream.write_all(bytes).await.map_err(MeetingError::Lost)?;
        stream.flush().await.map_err(MeetingError::Lost)
    }

    async fn hello(&mut self) -> Result<Hello, MeetingError> {
        loop {
            if let Some(hello) = Hello::decode(self.decoder.bytes())? {
                return Ok(hello);
            }
            let stream = self.stream.as_mut().ok_or(MeetingError::Closed)?;
            read(stream, &mut self.decoder).await?;
        }
    }

    async fn frame(&mut self) -> Result<Frame, MeetingError> {
        let stream = self.stream.as_mut().ok_or(MeetingError::Closed)?;
        frame(stream, &mut self.decoder).await
    }

    /// Says whether this side goes on.
    async fn answer(&mut self, theirs: Hello, checked: Result<(), Refusal>) -> Result<Meeting, MeetingError> {
        let mut bytes = BytesMut::new();
        match checked {
            Ok(()) => {
                Frame::Welcome.encode(&mut bytes);
                self.write(&bytes).await?;
                Ok(Meeting {
                    theirs,
                    stream: self.stream.take().ok_or(MeetingError::Closed)?,
                    decoder: std::mem::take(&mut self.decoder),
                })
            }
            Err(refusal) => {
                Frame::Refused(refusal.clone()).encode(&mut bytes);
                // It may be gone; it is refused in any case.
                let _ = timeout(LINGER, self.dismiss(&bytes)).await;
                Err(MeetingError::RefusedHere(theirs.into(), refusal))
            }
        }
    }

    /// Says a last word, and waits until the other side has read it: closing with unread bytes would take it away.
    async fn dismiss(&mut self, bytes: &[u8]) -> Result<(), MeetingError> {
        self.write(bytes).await?;
        let stream = self.stream()?;
        let _ = stream.shutdown().await;
        let mut rest = [0; 256];
        while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
        Ok(())
    }
}

impl Meeting {
    async fn frame(&mut self) -> Result<Frame, MeetingError> {
        frame(&mut self.stream, &mut self.decoder).await
    }
}

async fn frame(stream: &mut Stream, decoder: &mut FrameDecoder) -> Result<Frame, MeetingError> {
    loop {
        if decoder.bytes().len() > HELLO_BYTES_MAX && decoder.missing() > 0 {
            // Nothing long is said before both go on.
            return Err(MeetingError::Unexpected);
        }
        if let Some(frame) = decoder.next()? {
            return Ok(frame);
        }
        read(stream, decoder).await?;
    }
}

async fn read(stream: &mut Stream, decoder: &mut FrameDecoder) -> Result<(), MeetingError> {
    let bytes = decoder.bytes();
    bytes.reserve(HELLO_BYTES_MAX);
    match stream.read_buf(bytes).await {
        Ok(0) => Err(MeetingError::Closed),
        Ok(_) => Ok(()),
        // With TLS 1.3 it is heard of only here that the other side did not like the certificate.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(MeetingError::Tls(error)),
        Err(error) => Err(MeetingError::Lost(error)),
    }
}
