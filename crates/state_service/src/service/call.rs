//! From a PUBLISH to the invoke topic to a command, in the contract's order of checks (section 3).

use std::time::Duration;

use bytes::Bytes;
use mqtt::acks::AckSequence;
use mqtt::authorization::{Access, Right};
use mqtt::memory::Held;
use mqtt::now::Now;
use mqtt::principal::Principal;
use mqtt::response::Asking;
use protocol::Hlc;
use protocol::packet::{PacketId, ProtocolVersion, Publish, QoS};
use protocol::properties::UserProperties;
use protocol::state_store::properties::{self as wire, CLOCK_SKEW_MAX_MS};
use protocol::state_store::{
    Dialect, ErrorText, INVOKE_TOPIC, Reply, Request, RequestError, Verb, is_refused_response_topic,
    notification_topic,
};
use protocol::topic::TopicName;
use store::{CommandAction, RequestIdentity, RetryKey, Watcher};

use super::pending::{Answer, Pending};
use super::trace::RequestTrace;
use crate::scan_seal::{ScanBinding, ScanSeal};

/// In which form requests are answered where the published text and the shipped clients differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DialectChoice {
    /// As the request asks: with `__protVer` as the clients expect, without as the text says.
    #[default]
    Auto,
    /// Always as the shipped clients expect.
    Sdk,
    /// Always as the text says.
    Published,
}

/// A request ready to be decided.
#[derive(Debug)]
pub struct Call {
    pub(crate) asked: Asked,
    pub(crate) pending: Pending,
}

/// Which way a request goes.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Through the log.
    Write(CommandAction),
    /// After a read barrier.
    Read,
}

/// Why a PUBLISH to the invoke topic is not executed.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// The response topic may not be used: the client is disconnected (0x90).
    ResponseTopic(&'static str),
    /// Not a request at all: the PUBLISH is refused (0x83) and nothing is answered.
    NotARequest(&'static str),
    /// It has expired: acknowledged, not answered.
    Expired,
}

/// Client that asks, and its PUBLISH.
#[derive(Debug)]
pub struct Asker<'a> {
    /// Client that asks.
    pub asking: Asking,
    /// `None`: everything is allowed.
    pub access: Option<&'a mut Access>,
    /// Client id of its session.
    pub client_id: &'a str,
    /// Principal of its connection, if anybody asked.
    pub principal: Option<&'a Principal>,
    /// Seal that opens the token of a SCAN.
    pub scan_seal: &'a ScanSeal,
    /// Its connection in the logs.
    pub watcher: Watcher,
    /// Wall that no version is behind which the state store has given.
    pub given_until: u64,
    /// Place of its acknowledgement.
    pub ack: AckSequence,
    /// Packet id of the PUBLISH.
    pub packet_id: PacketId,
    /// Bytes of payload that fit the client for certain.
    pub reply_room: usize,
    /// If it is traced.
    pub trace: Option<Box<RequestTrace>>,
    /// Its part of the account of memory.
    pub held: Held,
}

/// The outcome of the checks: a call to decide, or an answer right away.
#[derive(Debug)]
pub enum Checked {
    /// The request can be decided.
    Call(Call),
    /// The request is answered at once.
    Refused(Answer, Remark),
}

/// Remark on a refused request, for the operator.
#[derive(Debug, PartialEq, Eq)]
pub enum Remark {
    /// No more than the answer.
    Nothing,
    /// A timestamp is so many milliseconds ahead.
    ClockAhead(u64),
    /// The client does not have this right to the key.
    Denied(Right, Bytes),
}

impl Call {
    /// Whether it registers for notifications.
    pub fn is_watch(&self) -> bool {
        matches!(self.asked, Asked::Write(CommandAction::Watch { .. }))
    }

    /// The key that it is about; a SCAN is about all.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match (&self.asked, &self.pending.read) {
            (Asked::Write(action), _) => action.key(),
            (Asked::Read, Some(Request::Get { key })) => Some(key),
            (Asked::Read, _) => None,
        }
    }
}

impl Asker<'_> {
    /// The right to its key that a request needs and the client does not have. A SCAN lists what may be read.
    fn lacks(&mut self, request: &Request) -> Option<(Right, Bytes)> {
        let access = self.access.as_deref_mut()?;
        let (right, key) = match request {
            Request::Get { key } | Request::KeyNotify { key, .. } => (Right::Read, key),
            Request::Set { key, .. } | Request::Del { key } | Request::VDel { key, .. } => {
                (Right::Write, key)
            }
            Request::Scan { .. } => return None,
        };
        let decision = match right {
            Right::Write => access.may_write_key(key),
            _ => access.may_read_key(key),
        };
        (!decision.is_allowed()).then(|| (right, key.clone()))
    }

    /// Leaves a GET or SCAN with what it may read. The token of a SCAN has to be one that was sealed for this client.
    fn read(&self, mut request: Request, pending: &mut Pending) -> Result<Asked, ErrorText> {
        if let Request::Scan { pattern, token } = &mut request {
            let bound = ScanBinding::new(self.principal, pattern);
            if let Some(sealed) = token {
                *sealed = self.scan_seal.open(&bound, sealed).ok_or(ErrorText::ScanToken)?;
            }
            pending.bound = bound;
            pending.readable = self.access.as_deref().cloned().map(Box::new);
        }
        pending.read = Some(request);
        Ok(Asked::Read)
    }
}

/// Checks the MQTT side of a request (contract, section 2).
pub fn check_envelope(publish: &Publish, version: ProtocolVersion) -> Result<(), Refused> {
    if version != ProtocolVersion::V5 {
        return Err(Refused::NotARequest("a state store request needs MQTT 5"));
    }
    if publish.qos != QoS::AtLeastOnce {
        return Err(Refused::NotARequest(
            "a state store request must be published with QoS 1",
        ));
    }
    let Some(topic) = &publish.properties.response_topic else {
        return Err(Refused::NotARequest(
            "a state store request needs a Response Topic",
        ));
    };
    if topic.as_str() == INVOKE_TOPIC {
        return Err(Refused::ResponseTopic(
            "the Response Topic of a state store request must not be the invoke topic",
        ));
    }
    if is_refused_response_topic(topic) {
        return Err(Refused::ResponseTopic(
            "the Response Topic of a state store request must not begin with the reserved prefix",
        ));
    }
    if TopicName::parse(topic.clone()).is_err() {
        return Err(Refused::ResponseTopic(
            "the Response Topic of a state store request must be a topic name",
        ));
    }
    if publish.properties.correlation_data.is_none() {
        return Err(Refused::NotARequest(
            "a state store request needs Correlation Data",
        ));
    }
    if publish.properties.message_expiry == Some(0) {
        return Err(Refused::Expired);
    }
    Ok(())
}

/// Turns a PUBLISH whose envelope is in order into a call, or into the answer that refuses it.
pub fn check(now: Now, mut asker: Asker<'_>, publish: Publish, choice: DialectChoice) -> Checked {
    let properties = Properties::of(&publish.properties.user_properties);
    let message_expiry = publish.properties.message_expiry;
    let expires_in = message_expiry.map(|seconds| Duration::from_secs(seconds.into()));
    let mut pending = Pending {
        asking: asker.asking,
        readable: None,
        watched: None,
        ack: asker.ack,
        packet_id: asker.packet_id,
        response_topic: publish.properties.response_topic.unwrap_or_default(),
        correlation_data: publish.properties.correlation_data.unwrap_or_default(),
        dialect: properties.dialect(choice),
        reply_room: asker.reply_room,
        needs_disk: properties.persist,
        verb: Verb::Unknown,
        read: None,
        bound: ScanBinding::default(),
        wants_details: properties.details,
        key: None,
        expires_at: expires_in.map(|left| now.after(left)),
        received_at: now.instant,
        trace: asker.trace.take(),
        identity: None,
        _held: std::mem::take(&mut asker.held),
    };
    if let Some(unsupported) = properties.unsupported_version() {
        let mut answer = pending.answer(now, &Reply::Error(ErrorText::Syntax), None);
        answer.unsupported_version = Some(unsupported);
        return Checked::Refused(answer, Remark::Nothing);
    }
    match command(
        now,
        &mut asker,
        &publish.payload,
        &properties,
        &mut pending,
        message_expiry,
    ) {
        Ok(asked) => Checked::Call(Call { asked, pending }),
        Err((text, remark)) => {
            let answer = pending.answer(now, &Reply::Error(text), None);
            match remark {
                // A packet that cannot be read never can.
                Remark::Nothing => Checked::Refused(answer, remark),
                // Clocks and policies change.
                Remark::ClockAhead(_) | Remark::Denied(..) => Checked::Refused(answer.forgotten(), remark),
            }
        }
    }
}

/// What a write is known by when it comes again.
fn identify(
    client_id: &str,
    payload: &Bytes,
    pending: &mut Pending,
    message_expiry: Option<u32>,
) -> RetryKey {
    let identity = RequestIdentity {
        client_id,
        response_topic: &pending.response_topic,
        correlation_data: &pending.correlation_data,
        payload,
    };
    let retry = RetryKey::new(&identity, message_expiry);
    pending.identity = Some(u128::from_be_bytes(retry.hash));
    retry
}

fn command(
    now: Now,
    asker: &mut Asker<'_>,
    payload: &Bytes,
    properties: &Properties<'_>,
    pending: &mut Pending,
    message_expiry: Option<u32>,
) -> Result<Asked, (ErrorText, Remark)> {
    let request = Request::parse(payload).map_err(|error| (text_of(error), Remark::Nothing))?;
    pending.verb = verb_of(&request);
    pending.key = request.key().cloned();
    let (timestamp, fencing) = timestamps((now, asker.given_until), properties, &request)?;
    if let Some((right, key)) = asker.lacks(&request) {
        return Err((ErrorText::NotAuthorized, Remark::Denied(right, key)));
    }
    if matches!(request, Request::Get { .. } | Request::Scan { .. }) {
        let asked = asker.read(request, pending);
        return asked.map_err(|text| (text, Remark::Nothing));
    }
    let retry = identify(asker.client_id, payload, pending, message_expiry);
    let retry = Some(retry);
    let action = match request {
        Request::Get { .. } | Request::Scan { .. } => return Ok(Asked::Read),
        Request::Set {
            key,
            value,
            condition,
            expires_in,
        } => {
            let timestamp = timestamp.ok_or((ErrorText::MissingTimestamp, Remark::Nothing))?;
            CommandAction::Set {
                key,
                value,
                condition,
                expires_in,
                timestamp,
                fencing,
                retry,
            }
        }
        Request::Del { key } => CommandAction::Delete {
            key,
            only_if: None,
            timestamp,
            fencing,
            retry,
        },
        Request::VDel { key, value } => CommandAction::Delete {
            key,
            only_if: Some(value),
            timestamp,
            fencing,
            retry,
        },
        Request::KeyNotify { key, stop: true } => CommandAction::Unwatch {
            key,
            watcher: asker.watcher,
            retry,
        },
        Request::KeyNotify { key, stop: false } => {
            if notification_topic(asker.client_id, &key).is_none() {
                return Err((ErrorText::KeyTooLongToWatch, Remark::Nothing));
            }
            pending.watched = asker.access.as_ref().map(|_| Bytes::copy_from_slice(&key));
            CommandAction::Watch {
                key,
                watcher: asker.watcher,
                dialect: pending.dialect,
                retry,
            }
        }
    };
    Ok(Asked::Write(action))
}

/// `__ts` and `__ft`: of each first its form, then how far ahead it is. A token that the state store itself may have given is
/// never too far, whatever the clocks say.
fn timestamps(
    (now, given_until): (Now, u64),
    properties: &Properties<'_>,
    request: &Request,
) -> Result<(Option<Hlc>, Option<Hlc>), (ErrorText, Remark)> {
    let latest = now.wall.saturating_add(CLOCK_SKEW_MAX_MS);
    let timestamp = timestamp_of((now, latest), properties.timestamp, ErrorText::TimestampAhead)?;
    if timestamp.is_none() && matches!(request, Request::Set { .. }) {
        return Err((ErrorText::MissingTimestamp, Remark::Nothing));
    }
    let is_write = matches!(
        request,
        Request::Set { .. } | Request::Del { .. } | Request::VDel { .. }
    );
    let fencing = timestamp_of(
        (now, latest.max(given_until)),
        properties.fencing.filter(|_| is_write),
        ErrorText::FencingTokenAhead,
    )?;
    Ok((timestamp, fencing))
}

fn timestamp_of(
    (now, latest): (Now, u64),
    text: Option<&str>,
    ahead: ErrorText,
) -> Result<Option<Hlc>, (ErrorText, Remark)> {
    let Some(text) = text else { return Ok(None) };
    let hlc = Hlc::parse(text).map_err(|_| (ErrorText::MalformedTimestamp, Remark::Nothing))?;
    if hlc.wall > latest {
        return Err((ahead, Remark::ClockAhead(hlc.wall - now.wall)));
    }
    Ok(Some(hlc))
}

/// The user properties of a request that mean something to us.
struct Properties<'a> {
    timestamp: Option<&'a str>,
    fencing: Option<&'a str>,
    version: Option<&'a str>,
    persist: bool,
    details: bool,
}

impl<'a> Properties<'a> {
    fn of(properties: &'a UserProperties) -> Self {
        let mut found = Self {
            timestamp: None,
            fencing: None,
            version: None,
            persist: false,
            details: false,
        };
        for (name, value) in properties.iter() {
            let place = match name {
                wire::TIMESTAMP => &mut found.timestamp,
                wire::FENCING_TOKEN => &mut found.fencing,
                wire::PROTOCOL_VERSION => &mut found.version,
                wire::PERSIST => {
                    found.persist = value == "true";
                    continue;
                }
                wire::DETAILS => {
                    found.details = value == "true";
                    continue;
                }
                _ => continue,
            };
            place.get_or_insert(value);
        }
        found
    }

    fn dialect(&self, choice: DialectChoice) -> Dialect {
        match (choice, self.version) {
            (DialectChoice::Sdk, _) | (DialectChoice::Auto, Some(_)) => Dialect::Sdk,
            (DialectChoice::Published, _) | (DialectChoice::Auto, None) => Dialect::Published,
        }
    }

    /// A version whose major part is not ours.
    fn unsupported_version(&self) -> Option<String> {
        let version = self.version?;
        let major = version.split('.').next().unwrap_or_default();
        (major != "1").then(|| version.to_owned())
    }
}

fn verb_of(request: &Request) -> Verb {
    match request {
        Request::Set { .. } => Verb::Set,
        Request::Get { .. } => Verb::Get,
        Request::Del { .. } => Verb::Del,
        Request::VDel { .. } => Verb::VDel,
        Request::KeyNotify { .. } => Verb::KeyNotify,
        Request::Scan { .. } => Verb::Scan,
    }
}

fn text_of(error: RequestError) -> ErrorText {
    match error {
        RequestError::Syntax => ErrorText::Syntax,
        RequestError::UnknownCommand => ErrorText::UnknownCommand,
        RequestError::WrongArguments => ErrorText::WrongArguments,
        RequestError::KeyLengthZero => ErrorText::KeyLengthZero,
    }
}
