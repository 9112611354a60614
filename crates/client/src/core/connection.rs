//! The life of one session's network connections: open, connect, keep alive, lose, wait, open again.

use std::time::{Duration, Instant};

use protocol::packet::{ConnAck, Disconnect, Packet};
use protocol::{ReasonCode, Text};

use super::backoff::Backoff;
use super::options::{Reconnect, SessionOptions};
use super::server_limits::ServerLimits;

/// What a session's connection is doing, for the caller to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionState {
    /// A connection is being made.
    Connecting,
    /// Connected; operations are sent.
    Connected {
        /// The server still had the session.
        session_present: bool,
    },
    /// Not connected; another attempt follows.
    Waiting {
        /// How long until the attempt.
        wait: Duration,
        /// Why the last connection ended or was not made.
        cause: LossCause,
    },
    /// Nothing will be sent any more.
    Ended {
        /// Why.
        cause: LossCause,
    },
}

/// Why a connection ended or was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LossCause {
    /// The caller asked for it.
    #[error("disconnected as asked")]
    Requested,
    /// The transport failed or was closed by the other side.
    #[error("the connection failed or was closed by the other side")]
    Transport,
    /// No CONNACK in time.
    #[error("no answer to CONNECT in time")]
    ConnectTimeout,
    /// No PINGRESP in time.
    #[error("no answer to PINGREQ in time")]
    KeepAliveTimeout,
    /// The CONNACK said no.
    #[error("the server refused the connection: {reason:?}{}", .explanation.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        /// Why.
        reason: ReasonCode,
        /// The server's words.
        explanation: Option<Text>,
    },
    /// The server sent DISCONNECT.
    #[error("the server ended the connection: {reason:?}{}", .explanation.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Disconnected {
        /// Why.
        reason: ReasonCode,
        /// The server's words.
        explanation: Option<Text>,
    },
    /// The server broke the protocol.
    #[error("the server broke the protocol: {reason:?}")]
    Violation {
        /// How, as told to the server.
        reason: ReasonCode,
    },
}

/// ```text
/// Idle -> Opening -> Connecting -> Up -> Waiting -> Opening ...
///            \____________\_________\___-> Waiting or Ended
/// ```
#[derive(Debug)]
pub(super) struct Connection {
    phase: Phase,
    backoff: Backoff,
    reconnect: Reconnect,
    connect_timeout: Duration,
    ping_timeout: Duration,
    keep_alive: u16,
    has_been_up: bool,
}

#[derive(Debug)]
enum Phase {
    Idle,
    Opening { until: Instant },
    Connecting { until: Instant },
    Up(Up),
    Waiting { until: Instant },
    Ended,
}

#[derive(Debug)]
struct Up {
    limits: ServerLimits,
    sent_at: Instant,
    received_at: Instant,
    pinged_at: Option<Instant>,
}

/// What the session has to do because time has passed.
#[derive(Debug)]
pub(super) enum Due {
    Open,
    Ping,
    Lost(LossCause),
}

impl Connection {
    pub(super) fn new(options: &SessionOptions) -> Self {
        Self {
            phase: Phase::Idle,
            backoff: Backoff::new(options.backoff, options.seed),
            reconnect: options.reconnect,
            connect_timeout: options.connect_timeout,
            ping_timeout: options.ping_timeout,
            keep_alive: options.keep_alive,
            has_been_up: false,
        }
    }

    pub(super) fn open(&mut self, now: Instant) {
        self.phase = Phase::Opening {
            until: now + self.connect_timeout,
        };
    }

    /// The transport is there: CONNECT may be sent. False if it came too late.
    pub(super) fn opened(&mut self) -> bool {
        let Phase::Opening { until } = self.phase else {
            return false;
        };
        self.phase = Phase::Connecting { until };
        true
    }

    /// CONNACK: the limits in force, or why there is no connection.
    pub(super) fn connected(&mut self, now: Instant, connack: &ConnAck) -> Result<ServerLimits, LossCause> {
        if !matches!(self.phase, Phase::Connecting { .. }) {
            return Err(LossCause::Violation {
                reason: ReasonCode::ProtocolError,
            });
        }
        if connack.reason != ReasonCode::Success {
            let explanation = connack.properties.explanation.reason_string.clone();
            return Err(LossCause::Refused {
                reason: connack.reason,
                explanation,
            });
        }
        let limits = ServerLimits::of(connack, self.keep_alive);
        self.has_been_up = true;
        self.backoff.connected(now);
        self.phase = Phase::Up(Up {
            limits,
            sent_at: now,
            received_at: now,
            pinged_at: None,
        });
        Ok(limits)
    }

    /// The connection is gone. The wait before the next attempt, or `None` if there will be none.
    pub(super) fn lost(&mut self, now: Instant, cause: &LossCause) -> Option<Duration> {
        let is_final = match cause {
            LossCause::Requested => true,
            // Somebody else connects with this client id: coming back would end their connection, and so on.
            LossCause::Disconnected { reason, .. } => *reason == ReasonCode::SessionTakenOver,
            _ => false,
        };
        let goes_on = match self.reconnect {
            Reconnect::Never => false,
            Reconnect::AfterFirst => self.has_been_up,
            Reconnect::Always => true,
        };
        if is_final || !goes_on {
            self.phase = Phase::Ended;
            return None;
        }
        let wait = self.backoff.next_wait(now);
        self.phase = Phase::Waiting { until: now + wait };
        Some(wait)
    }

    pub(super) fn sent(&mut self, now: Instant) {
        if let Phase::Up(up) = &mut self.phase {
            up.sent_at = now;
        }
    }

    pub(super) fn received(&mut self, now: Instant) {
        if let Phase::Up(up) = &mut self.phase {
            up.received_at = now;
        }
    }

    pub(super) fn ponged(&mut self) {
        if let Phase::Up(up) = &mut self.phase {
            up.pinged_at = None;
        }
    }

    /// What is due at `now`, if anything is.
    pub(super) fn due(&mut self, now: Instant) -> Option<Due> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        match &mut self.phase {
            Phase::Idle | Phase::Ended => None,
            Phase::Opening { .. } | Phase::Connecting { .. } => Some(Due::Lost(LossCause::ConnectTimeout)),
            Phase::Waiting { .. } => Some(Due::Open),
            Phase::Up(up) if up.pinged_at.is_some() => Some(Due::Lost(LossCause::KeepAliveTimeout)),
            Phase::Up(up) => {
                up.pinged_at = Some(now);
                Some(Due::Ping)
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Idle | Phase::Ended => None,
            Phase::Opening { until } | Phase::Connecting { until } | Phase::Waiting { until } => Some(*until),
            Phase::Up(up) if up.limits.keep_alive.is_zero() => None,
            Phase::Up(up) => Some(match up.pinged_at {
                Some(pinged_at) => pinged_at + self.ping_timeout,
                // [MQTT-3.1.2-20]; also when nothing comes back, to notice a server that is gone.
                None => up.sent_at.min(up.received_at) + up.limits.keep_alive,
            }),
        }
    }

    pub(super) fn limits(&self) -> Option<&ServerLimits> {
        match &self.phase {
            Phase::Up(up) => Some(&up.limits),
            _ => None,
        }
    }

    pub(super) fn has_been_up(&self) -> bool {
        self.has_been_up
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// True if there is a transport, or one being opened.
    pub(super) fn has_transport(&self) -> bool {
        matches!(
            self.phase,
            Phase::Opening { .. } | Phase::Connecting { .. } | Phase::Up(_)
        )
    }

    /// True if the server can be told why the connection ends.
    pub(super) fn can_say_goodbye(&self) -> bool {
        matches!(self.phase, Phase::Up(_))
    }
}

/// The DISCONNECT for a cause that this side found.
pub(super) fn goodbye(cause: &LossCause) -> Option<Packet> {
    let reason = match cause {
        LossCause::Requested => ReasonCode::Success,
        LossCause::Violation { reason } => *reason,
        LossCause::KeepAliveTimeout => ReasonCode::KeepAliveTimeout,
        _ => return None,
    };
    Some(Packet::Disconnect(Disconnect::new(reason)))
}
