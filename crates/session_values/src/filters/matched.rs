//! Matches: what a session, or a shared group, gets of a message, by the subscriptions that count.

use cluster::session_plane::Hlc;
use protocol::packet::{QoS, SubscriptionId};
use session_plane::plane::CopyRef;
use session_plane::{Birth, ClientId, Dot, Entry, EntryKind, Matched};

use crate::{Content, QueuedMessage, SubscriptionTerms, Value};

/// Subscription that takes a message.
struct Taking<'a> {
    birth: Birth,
    terms: &'a SubscriptionTerms,
}

/// Message for the queue of a client's session: of several sessions that count the one that began last.
///
/// It has the highest QoS of the subscriptions that match, and the identifiers of all of them.
/// [MQTT-3.3.4-2] [MQTT-3.3.4-3]
pub(super) fn matched_session(
    copy: &CopyRef<'_, Value>,
    client: &ClientId,
    content: &Content,
    clock: Hlc,
) -> Option<Matched<Value>> {
    let kind = EntryKind::Subscription;
    let live = copy.entries.live(copy.covered, client.as_bytes(), kind);
    let taking = live.filter_map(|(_, entry)| takes(entry, client, content, clock));
    let taking: Vec<Taking<'_>> = taking.collect();
    let birth = taking.iter().map(|taking| taking.birth);
    let birth = birth.max_by_key(|birth| (birth.clock, birth.dot))?;
    let of_session = || {
        let of_session = taking.iter().filter(|taking| taking.birth == birth);
        of_session.map(|taking| taking.terms)
    };
    let highest = of_session().map(|terms| terms.options().qos).max()?;
    let retains = of_session().any(|terms| terms.options().retain_as_published);
    let ids: Vec<SubscriptionId> = of_session().filter_map(SubscriptionTerms::id).collect();
    // [MQTT-3.8.4-8] [MQTT-3.3.1-12] [MQTT-3.3.1-13]
    let (qos, retain) = (content.qos().min(highest), content.retain() && retains);
    Some(Matched {
        client: client.clone(),
        birth,
        value: Value::Message(QueuedMessage::new(content.clone(), qos, retain, &ids)),
    })
}

/// The subscription takes the message, with QoS 1 or 2.
fn takes<'a>(
    entry: &'a Entry<Value>,
    client: &ClientId,
    content: &Content,
    clock: Hlc,
) -> Option<Taking<'a>> {
    let Value::Subscription(terms) = &entry.value else {
        return None;
    };
    let options = terms.options();
    let is_stored = content.qos().min(options.qos) > QoS::AtMostOnce;
    let is_earlier = terms.since().unwrap_or(entry.clock) < clock;
    // [MQTT-3.8.3-3]
    let publisher = content.publisher().map(|publisher| &publisher.as_bytes()[..]);
    let is_own = options.no_local && publisher == Some(client.as_bytes());
    let matches = terms.filter().filter.matches(content.topic().as_str());
    let birth = entry.birth;
    (is_stored && is_earlier && !is_own && matches).then_some(Taking { birth, terms })
}

/// Message for a shared group, if a member has subscribed earlier. The member that is given it takes it with the
/// QoS of its own subscription.
pub(super) fn matched_group(
    copy: &CopyRef<'_, Value>,
    key: &ClientId,
    message: Dot,
    content: &Content,
    clock: Hlc,
) -> Option<Matched<Value>> {
    let mut members = copy.entries.live(copy.covered, key.as_bytes(), EntryKind::Member);
    members.find(|(_, entry)| entry.member_since() < Some(clock))?;
    Some(Matched {
        client: key.clone(),
        birth: Birth::of_group_message(message, clock),
        value: Value::Message(QueuedMessage::new(content.clone(), content.qos(), false, &[])),
    })
}
