//! Words to packets.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use broker::{Redirect, ShareStrategy};
use bytes::Bytes;
use mqtt::authentication::Answer;
use mqtt::limits::Limits;
use mqtt::now::Now;
use mqtt::principal::{Attributes, Principal};
use protocol::packet::{
    Ack, Auth, Connect, ConnectProperties, Disconnect, PacketId, ProtocolVersion, Publish, QoS,
    RetainHandling, Subscribe, SubscribeFilter, SubscriptionOptions, Unsubscribe, Will,
};
use protocol::properties::{Explanation, MessageProperties, UserProperties};
use protocol::state_store::INVOKE_TOPIC;
use protocol::{Packet, ReasonCode, Text, TopicName};
use smallvec::SmallVec;

/// The words of a line: plain ones in turn, `name=value` ones by name.
pub(super) struct Words<'a> {
    plain: std::vec::IntoIter<&'a str>,
    named: Vec<(&'a str, &'a str)>,
    flags: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        let (mut plain, mut named, mut flags) = (Vec::new(), Vec::new(), Vec::new());
        for word in line.split_whitespace() {
            match (word.strip_prefix('+'), word.split_once('=')) {
                (Some(flag), _) if !flag.is_empty() && !flag.starts_with('/') => flags.push(flag),
                (_, Some((name, value))) => named.push((name, value)),
                _ => plain.push(word),
            }
        }
        Self {
            plain: plain.into_iter(),
            named,
            flags,
        }
    }

    pub(super) fn next(&mut self) -> Result<&'a str, String> {
        self.plain.next().ok_or_else(|| "a word is missing".to_owned())
    }

    fn rest(&mut self) -> Vec<&'a str> {
        self.plain.by_ref().collect()
    }

    fn named(&self, name: &str) -> Option<&'a str> {
        self.named
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| *value)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        self.named(name)
            .map(|text| text.parse().map_err(|_| format!("{name}={text} is no number")))
            .transpose()
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }
}

/// `100ms`, `5s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = |_| format!("{text} is no duration");
    match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(millis), _) => millis.parse().map(Duration::from_millis).map_err(wrong),
        (None, Some(seconds)) => seconds.parse().map(Duration::from_secs).map_err(wrong),
        (None, None) => Err(format!("{text} is no duration")),
    }
}

/// `# limit receive_maximum=2`
pub(super) fn limit(limits: &mut Limits, line: &str) -> Result<(), String> {
    let words = Words::of(line);
    if let Some(limit) = words.number("receive_maximum")? {
        limits.receive_maximum = limit;
    }
    if let Some(limit) = words.number("queue_messages_max")? {
        limits.queue_messages_max = limit;
    }
    if let Some(limit) = words.number("queue_bytes_max")? {
        limits.queue_bytes_max = limit;
    }
    if let Some(limit) = words.number("sessions_max")? {
        limits.sessions_max = limit;
    }
    if let Some(limit) = words.number("subscriptions_per_session_max")? {
        limits.subscriptions_per_session_max = limit;
    }
    if let Some(limit) = words.number("retained_messages_max")? {
        limits.retained_messages_max = limit;
    }
    if let Some(limit) = words.number("memory_max")? {
        limits.memory_max = limit;
    }
    if let Some(is_on) = words.named("high_priority") {
        limits.high_priority = is_on == "on";
    }
    if let Some(limit) = words.number("connections_max")? {
        limits.connections_max = limit;
    }
    Ok(())
}

/// `# share_strategy hash-topic`
pub(super) fn share_strategy(name: &str) -> Result<ShareStrategy, String> {
    match name {
        "round-robin" => Ok(ShareStrategy::RoundRobin),
        "hash-client" => Ok(ShareStrategy::HashClient),
        "hash-topic" => Ok(ShareStrategy::HashTopic),
        other => Err(format!("{other} is no strategy")),
    }
}

/// The packet that a line asks for.
pub(super) fn packet(verb: &str, client: &str, now: Now, words: Words<'_>) -> Result<Packet, String> {
    match verb {
        "connect" | "second_connect" => connect(client, &words),
        "publish" => publish(words),
        "subscribe" => subscribe(words),
        "unsubscribe" => unsubscribe(words),
        "puback" => ack(&words).map(Packet::PubAck),
        "pubrec" => ack(&words).map(Packet::PubRec),
        "pubrel" => ack(&words).map(Packet::PubRel),
        "pubcomp" => ack(&words).map(Packet::PubComp),
        "ping" => Ok(Packet::PingReq),
        "disconnect" => disconnect(&words),
        "auth" => auth(words),
        "ask" => ask(client, now, words),
        other => Err(format!("{other} is no packet")),
    }
}

/// `connect [+clean] [+v311] [expiry=60] [keep_alive=10] [receive_maximum=2] [packet_size_max=100] [aliases=3]
/// [client_id=x] [user=k:v,k:v] [auth_method=x] [auth_data=x] [username=x] [password=x] [will=topic:payload] [will_qos=1] [will_delay=5] [will_user=k:v,k:v] [+will_retain]
/// [+quiet] [+asks_response]`; `second_connect` is the same on a connection that has one.
fn connect(client: &str, words: &Words<'_>) -> Result<Packet, String> {
    let version = if words.is("v311") {
        ProtocolVersion::V311
    } else {
        ProtocolVersion::V5
    };
    let properties = ConnectProperties {
        session_expiry: words.number("expiry")?,
        receive_maximum: words.number("receive_maximum")?,
        packet_size_max: words.number("packet_size_max")?,
        topic_alias_maximum: words.number("aliases")?,
        request_problem_information: words.is("quiet").then_some(false),
        authentication_method: words.named("auth_method").map(text).transpose()?,
        authentication_data: words.named("auth_data").map(bytes),
        request_response_information: words.is("asks_response").then_some(true),
        user_properties: user_properties(words.named("user"))?,
    };
    let client_id = if words.is("nameless") {
        ""
    } else {
        words.named("client_id").unwrap_or(client)
    };
    Ok(Packet::Connect(Box::new(Connect {
        version,
        clean_start: words.is("clean"),
        keep_alive: words.number("keep_alive")?.unwrap_or(0),
        will: will(words)?,
        username: words.named("username").map(text).transpose()?,
        password: words.named("password").map(bytes),
        properties,
        ..Connect::new(text(client_id)?)
    })))
}

/// `auth METHOD [data] [reason=25]`: more of the exchange that is under way, or with 25 (0x19) another one.
fn auth(mut words: Words<'_>) -> Result<Packet, String> {
    let method = text(words.next()?)?;
    let data = words.rest().join(" ");
    Ok(Packet::Auth(Auth {
        reason: ReasonCode::try_from(words.number("reason")?.unwrap_or(0x18))
            .map_err(|error| error.to_string())?,
        method: Some(method),
        data: (!data.is_empty()).then(|| Bytes::from(data)),
        explanation: Explanation::default(),
    }))
}

/// `continue [data] [again=x]`, `accept [data] [as=x] [method=x] [attributes=name:value,name:value] [for=60s]` or `refuse [reason=135]`
pub(super) fn answer(mut words: Words<'_>) -> Result<Answer, String> {
    let verb = words.next()?;
    let data = words.rest().join(" ");
    let data = (!data.is_empty()).then(|| Bytes::from(data));
    Ok(match verb {
        "continue" => Answer::Continue {
            data,
            continuation: words.named("again").map(bytes).unwrap_or_default(),
        },
        "accept" => Answer::Accept {
            principal: words
                .named("as")
                .map(|name| {
                    let attributes = attributes(words.named("attributes"))?;
                    let method = words.named("method").map(text).transpose()?.unwrap_or_default();
                    Ok::<_, String>(Principal::new(text(name)?, attributes).by_method(method))
                })
                .transpose()?,
            data,
            expires_in: words.named("for").map(duration).transpose()?,
        },
        "refuse" => Answer::Refuse {
            reason: match reason(&words)? {
                ReasonCode::Success => ReasonCode::NotAuthorized,
                other => other,
            },
            why: "no".into(),
        },
        other => return Err(format!("{other} is no answer")),
    })
}

/// `name:value,name:value`
fn attributes(pairs: Option<&str>) -> Result<Attributes, String> {
    let each = pairs.into_iter().flat_map(|pairs| pairs.split(','));
    each.filter_map(|pair| pair.split_once(':'))
        .map(|(name, value)| Ok((text(name)?, text(value)?)))
        .collect()
}

/// `b.example:1883 [+permanent] [+new]`
pub(super) fn redirect(line: &str) -> Result<Redirect, String> {
    let mut words = Words::of(line);
    Ok(Redirect {
        server: text(&words.rest().join(" "))?,
        is_permanent: words.is("permanent"),
        is_for_new_clients: words.is("new"),
    })
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn will(words: &Words<'_>) -> Result<Option<Will>, String> {
    let Some(will) = words.named("will") else {
        return Ok(None);
    };
    let (topic, payload) = will.split_once(':').ok_or("will=topic:payload")?;
    Ok(Some(Will {
        topic: TopicName::parse(text(topic)?).map_err(|error| error.to_string())?,
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        qos: qos(words.number("will_qos")?)?,
        retain: words.is("will_retain"),
        delay: words.number("will_delay")?,
        properties: MessageProperties {
            user_properties: user_properties(words.named("will_user"))?,
            ..MessageProperties::default()
        },
    }))
}

/// `publish topic [payload] [qos=1] [id=5] [+retain] [+dup] [expiry=10] [alias=1] [response_topic=x] [correlation=x]
/// [content_type=x] [+utf8] [long=10000] [user=k:v,k:v] [partition=x]`; the topic `-` is the empty one. `long`:
/// spaces follow the payload up to so many bytes.
fn publish(mut words: Words<'_>) -> Result<Packet, String> {
    let topic = words.next()?;
    let mut payload = words.rest().join(" ").into_bytes();
    if let Some(bytes) = words.number("long")? {
        payload.resize(bytes, b' ');
    }
    let qos = qos(words.number("qos")?)?;
    Ok(Packet::Publish(Box::new(Publish {
        dup: words.is("dup"),
        qos,
        retain: words.is("retain"),
        topic: text(if topic == "-" { "" } else { topic })?,
        packet_id: words.number::<u16>("id")?.and_then(PacketId::new),
        topic_alias: words.number::<u16>("alias")?.and_then(NonZeroU16::new),
        subscription_ids: SmallVec::new(),
        properties: MessageProperties {
            message_expiry: words.number("expiry")?,
            response_topic: words.named("response_topic").map(text).transpose()?,
            correlation_data: words
                .named("correlation")
                .map(|data| Bytes::copy_from_slice(data.as_bytes())),
            payload_is_utf8: words.is("utf8").then_some(true),
            content_type: words.named("content_type").map(text).transpose()?,
            user_properties: match words.named("partition") {
                Some(partition) => pairs([("$partition", partition)])?,
                None => user_properties(words.named("user"))?,
            },
        },
        payload: Bytes::from(payload),
    })))
}

/// `k:v,k:v`
fn user_properties(text: Option<&str>) -> Result<UserProperties, String> {
    let each = text.into_iter().flat_map(|text| text.split(','));
    pairs(each.filter_map(|pair| pair.split_once(':')))
}

fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<UserProperties, String> {
    UserProperties::from_pairs(pairs).map_err(|error| error.to_string())
}

/// `ask SET k v [id=7] [ts=wall:counter:node] [ft=...] [+published] [+details] [correlation=x] [response_topic=x]`: a state store request.
fn ask(client: &str, now: Now, mut words: Words<'_>) -> Result<Packet, String> {
    let mut properties = Vec::new();
    let own = format!("{}:0:{client}", now.wall);
    if !words.is("without_ts") {
        properties.push(("__ts", words.named("ts").unwrap_or(&own)));
    }
    if let Some(token) = words.named("ft") {
        properties.push(("__ft", token));
    }
    if !words.is("published") {
        properties.push(("__protVer", "1.0"));
    }
    if words.is("details") {
        properties.push(("statehold-details", "true"));
    }
    let packet_id = words.number("id")?.unwrap_or(1);
    let arguments = words.rest();
    let mut packet = request(client, now, packet_id, &arguments, &properties);
    if let (Packet::Publish(publish), Some(correlation)) = (&mut packet, words.named("correlation")) {
        publish.properties.correlation_data = Some(Bytes::copy_from_slice(correlation.as_bytes()));
    }
    if let (Packet::Publish(publish), Some(topic)) = (&mut packet, words.named("response_topic")) {
        publish.properties.response_topic = Some(text(topic)?);
    }
    if let (Packet::Publish(publish), true) = (&mut packet, words.is("dup")) {
        publish.dup = true;
    }
    Ok(packet)
}

/// A state store request; without properties it gets those of an official client.
pub(super) fn request(
    client: &str,
    now: Now,
    packet_id: u16,
    arguments: &[&str],
    properties: &[(&str, &str)],
) -> Packet {
    let mut payload = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        payload.extend_from_slice(format!("${}\r\n{argument}\r\n", argument.len()).as_bytes());
    }
    let own = format!("{}:0:{client}", now.wall);
    let usual = [("__ts", own.as_str()), ("__protVer", "1.0")];
    let pairs = if properties.is_empty() {
        &usual[..]
    } else {
        properties
    };
    Packet::Publish(Box::new(Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: Text::from_static(INVOKE_TOPIC),
        packet_id: PacketId::new(packet_id),
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties: MessageProperties {
            response_topic: Text::new(format!("clients/{client}/response")).ok(),
            correlation_data: Some(Bytes::copy_from_slice(&packet_id.to_be_bytes())),
            user_properties: UserProperties::from_pairs(pairs.iter().copied()).expect("short properties"),
            ..MessageProperties::default()
        },
        payload: Bytes::from(payload),
    }))
}

/// `subscribe id=1 [sub_id=9] filter:qos[:nl][:rap][:new][:none] ...`
fn subscribe(mut words: Words<'_>) -> Result<Packet, String> {
    let filters = words
        .rest()
        .into_iter()
        .map(subscribe_filter)
        .collect::<Result<_, _>>()?;
    Ok(Packet::Subscribe(Subscribe {
        packet_id: packet_id(&words)?,
        subscription_id: words.number::<u32>("sub_id")?.and_then(NonZeroU32::new),
        user_properties: UserProperties::EMPTY,
        filters,
    }))
}

fn subscribe_filter(word: &str) -> Result<SubscribeFilter, String> {
    let mut parts = word.split(':');
    let filter = text(parts.next().unwrap_or_default())?;
    let mut options = SubscriptionOptions::default();
    for part in parts {
        match part {
            "nl" => options.no_local = true,
            "rap" => options.retain_as_published = true,
            "new" => options.retain_handling = RetainHandling::SendIfNew,
            "none" => options.retain_handling = RetainHandling::DoNotSend,
            number => options.qos = qos(number.parse().ok())?,
        }
    }
    Ok(SubscribeFilter { filter, options })
}

fn unsubscribe(mut words: Words<'_>) -> Result<Packet, String> {
    let filters = words.rest().into_iter().map(text).collect::<Result<_, _>>()?;
    Ok(Packet::Unsubscribe(Unsubscribe {
        packet_id: packet_id(&words)?,
        user_properties: UserProperties::EMPTY,
        filters,
    }))
}

/// `puback id=3 [reason=128]`
fn ack(words: &Words<'_>) -> Result<Ack, String> {
    Ok(Ack::new(packet_id(words)?, reason(words)?))
}

fn disconnect(words: &Words<'_>) -> Result<Packet, String> {
    let session_expiry = words.number("expiry")?;
    Ok(Packet::Disconnect(Disconnect {
        session_expiry,
        ..Disconnect::new(reason(words)?)
    }))
}

fn reason(words: &Words<'_>) -> Result<ReasonCode, String> {
    let code: u8 = words.number("reason")?.unwrap_or(0);
    ReasonCode::try_from(code).map_err(|_| format!("{code} is no reason code"))
}

fn packet_id(words: &Words<'_>) -> Result<PacketId, String> {
    words
        .number::<u16>("id")?
        .and_then(PacketId::new)
        .ok_or_else(|| "id= is missing".to_owned())
}

fn qos(number: Option<u8>) -> Result<QoS, String> {
    match number {
        None | Some(0) => Ok(QoS::AtMostOnce),
        Some(1) => Ok(QoS::AtLeastOnce),
        Some(2) => Ok(QoS::ExactlyOnce),
        Some(other) => Err(format!("{other} is no QoS")),
    }
}

fn text(text: &str) -> Result<Text, String> {
    Text::new(text).map_err(|error| error.to_string())
}
