use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use protocol::Text;
use protocol::packet::SubscriptionId;

use super::*;
use crate::subscriptions::point_of;

const SEED: u64 = 0x5eed;

fn filter(text: &str) -> SubscriptionFilter {
    SubscriptionFilter::parse(Text::new(text).unwrap()).unwrap()
}

fn with_id(id: u32) -> Subscription {
    Subscription {
        id: SubscriptionId::new(id),
        ..Subscription::default()
    }
}

fn join(shares: &mut Shares, session: u32, text: &str, standing: Standing) {
    let (key, point) = (SessionKey(session), point_of(&format!("client{session}")));
    shares.subscribe(key, point, &filter(text), Subscription::default());
    shares.stand(key, &filter(text), standing);
}

/// Who gets a message to `topic`, for each share that matches.
fn receivers(shares: &mut Shares, topic: &str, together: Option<&str>) -> Vec<(String, u32)> {
    let mut found = vec![];
    shares.matches(topic, &mut |share| found.push(share));
    let mut receivers: Vec<_> = found
        .into_iter()
        .filter_map(|share| shares.choose(share, together.map(point_of)))
        .map(|chosen| (chosen.share.to_string(), chosen.session.0))
        .collect();
    receivers.sort();
    receivers
}

fn receiver(shares: &mut Shares, together: Option<&str>) -> u32 {
    let receivers = receivers(shares, "a", together);
    assert_eq!(receivers.len(), 1, "{receivers:?}");
    receivers[0].1
}

#[test]
fn every_share_gets_each_message_once() {
    let mut shares = Shares::new(SEED);
    for (session, text) in [
        (1, "$share/x/a/+"),
        (2, "$share/x/a/+"),
        (1, "$share/y/a/+"),
        (1, "$share/x/a/b"),
    ] {
        join(&mut shares, session, text, Standing::Free);
    }
    let names = |topic: &str, shares: &mut Shares| -> Vec<String> {
        let receivers = receivers(shares, topic, None).into_iter();
        receivers.map(|(share, _)| share).collect()
    };
    assert_eq!(
        names("a/b", &mut shares),
        ["$share/x/a/+", "$share/x/a/b", "$share/y/a/+"]
    );
    assert_eq!(names("a/c", &mut shares), ["$share/x/a/+", "$share/y/a/+"]);
    assert_eq!(names("b", &mut shares), [""; 0]);
    assert_eq!((shares.len(), shares.subscriptions()), (3, 4));
}

#[test]
fn who_keeps_up_goes_before_who_is_connected_and_that_before_who_is_away() {
    let mut shares = Shares::new(SEED);
    for (session, standing) in [(1, Standing::Away), (2, Standing::Behind), (3, Standing::Free)] {
        join(&mut shares, session, "$share/x/a", standing);
    }
    assert_eq!([(); 3].map(|()| receiver(&mut shares, None)), [3, 3, 3]);
    shares.stand(SessionKey(3), &filter("$share/x/a"), Standing::Away);
    assert_eq!([(); 3].map(|()| receiver(&mut shares, None)), [2, 2, 2]);
    shares.stand(SessionKey(2), &filter("$share/x/a"), Standing::Away);
    let away = BTreeSet::from([(); 3].map(|()| receiver(&mut shares, None)));
    assert_eq!(away, BTreeSet::from([1, 2, 3]));
}

#[test]
fn what_belongs_together_stays_together_also_with_one_that_is_behind() {
    let mut shares = Shares::new(SEED);
    for session in 0..5 {
        join(&mut shares, session, "$share/x/a", Standing::Free);
    }
    let names: Vec<String> = (0..100).map(|number| format!("partition{number}")).collect();
    let before: Vec<u32> = names
        .iter()
        .map(|name| receiver(&mut shares, Some(name)))
        .collect();
    assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 5);
    shares.stand(SessionKey(2), &filter("$share/x/a"), Standing::Behind);
    let behind: Vec<u32> = names
        .iter()
        .map(|name| receiver(&mut shares, Some(name)))
        .collect();
    assert_eq!(before, behind);
    shares.stand(SessionKey(2), &filter("$share/x/a"), Standing::Away);
    for (name, before) in names.iter().zip(before) {
        let now = receiver(&mut shares, Some(name));
        assert!(now != 2 && (now == before || before == 2));
    }
}

#[test]
fn a_second_subscription_to_a_share_does_not_make_a_second_sharer() {
    let mut shares = Shares::new(SEED);
    let (key, point, filter) = (SessionKey(1), point_of("client1"), filter("$share/x/a"));
    assert_eq!(shares.subscribe(key, point, &filter, with_id(1)), None);
    assert_eq!(
        shares.subscribe(key, point, &filter, with_id(2)),
        Some(with_id(1))
    );
    let share = shares.find(&filter).unwrap();
    assert_eq!(shares.choose(share, None).unwrap().subscription, with_id(2));
    assert!(shares.unsubscribe(key, &filter));
    assert!(!shares.unsubscribe(key, &filter));
    assert!(shares.is_empty());
    assert_eq!((shares.subscriptions(), shares.find(&filter)), (0, None));
    assert_eq!(shares.sweep().as_deref(), Some(&filter));
    assert_eq!(shares.index.exact.entries(), 0);
}

#[test]
fn a_share_without_sharers_is_gone_before_it_is_swept_and_comes_back_whole() {
    let mut shares = Shares::new(SEED);
    let text = "$share/x/a";
    join(&mut shares, 1, text, Standing::Free);
    assert!(shares.unsubscribe(SessionKey(1), &filter(text)));
    assert!(shares.is_empty() && !shares.is_swept());
    assert_eq!(
        (shares.find(&filter(text)), shares.count(&filter(text))),
        (None, (0, 0))
    );
    assert_eq!(receivers(&mut shares, "a", None), []);

    // It is there again when its turn to be swept comes, and is emptied anew.
    join(&mut shares, 2, text, Standing::Free);
    assert_eq!(receiver(&mut shares, None), 2);
    assert_eq!(shares.sweep(), None);
    assert_eq!((shares.len(), receiver(&mut shares, None)), (1, 2));
    shares.unsubscribe(SessionKey(2), &filter(text));
    assert_eq!(
        shares.sweep().map(|share| share.to_string()).as_deref(),
        Some(text)
    );
    assert_eq!(shares.sweep(), None);
    assert_eq!(shares.len(), 0);
}

#[derive(Debug, Clone)]
enum Call {
    Join { session: u32 },
    Leave { session: u32 },
    Stand { session: u32, standing: Standing },
    Publish { together: Option<u8> },
    Sweep,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let standing = prop_oneof![Just(Standing::Free), Just(Standing::Behind), Just(Standing::Away)];
    let call = prop_oneof![
        2 => (0..6_u32).prop_map(|session| Call::Join { session }),
        1 => (0..6_u32).prop_map(|session| Call::Leave { session }),
        2 => (0..6_u32, standing).prop_map(|(session, standing)| Call::Stand { session, standing }),
        4 => prop::option::of(0..4_u8).prop_map(|together| Call::Publish { together }),
        1 => Just(Call::Sweep),
    ];
    prop::collection::vec(call, 0..80)
}

/// The sessions that a message may go to.
fn candidates(sharers: &BTreeMap<u32, Standing>, is_together: bool) -> BTreeSet<u32> {
    let of = |standings: &[Standing]| -> BTreeSet<u32> {
        let sharers = sharers
            .iter()
            .filter(|(_, standing)| standings.contains(standing));
        sharers.map(|(session, _)| *session).collect()
    };
    let tiers: &[&[Standing]] = if is_together {
        &[&[Standing::Free, Standing::Behind], &[Standing::Away]]
    } else {
        &[&[Standing::Free], &[Standing::Behind], &[Standing::Away]]
    };
    let mut tiers = tiers.iter().map(|standings| of(standings));
    tiers.find(|sessions| !sessions.is_empty()).unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn every_message_goes_to_one_of_the_best_and_turns_are_fair(calls in calls()) {
        const SHARE: &str = "$share/x/a";
        let mut shares = Shares::new(SEED);
        let mut model: BTreeMap<u32, Standing> = BTreeMap::new();
        // Turns since the sharers were changed.
        let mut turns: BTreeMap<u32, u32> = BTreeMap::new();
        for call in calls {
            match call {
                Call::Publish { together } => {
                    let text = together.map(|number| format!("partition{number}"));
                    let candidates = candidates(&model, together.is_some());
                    let chosen = receivers(&mut shares, "a", text.as_deref());
                    prop_assert_eq!(chosen.len(), usize::from(!model.is_empty()));
                    let Some((_, session)) = chosen.first() else { continue };
                    prop_assert!(candidates.contains(session));
                    if together.is_some() {
                        prop_assert_eq!(receiver(&mut shares, text.as_deref()), *session);
                        continue;
                    }
                    *turns.entry(*session).or_default() += 1;
                    let counts = candidates.iter().map(|session| turns.get(session).copied().unwrap_or(0));
                    let (least, most) = (counts.clone().min(), counts.max());
                    prop_assert!(most.unwrap_or(0) - least.unwrap_or(0) <= 1, "{:?}", turns);
                }
                Call::Join { session } => {
                    join(&mut shares, session, SHARE, Standing::Free);
                    model.insert(session, Standing::Free);
                    turns.clear();
                }
                Call::Leave { session } => {
                    let existed = shares.unsubscribe(SessionKey(session), &filter(SHARE));
                    prop_assert_eq!(existed, model.remove(&session).is_some());
                    turns.clear();
                }
                Call::Sweep => {
                    prop_assert!(shares.sweep().is_none() || model.is_empty());
                }
                Call::Stand { session, standing } => {
                    shares.stand(SessionKey(session), &filter(SHARE), standing);
                    if let Some(known) = model.get_mut(&session) {
                        *known = standing;
                    }
                    turns.clear();
                }
            }
            prop_assert_eq!(shares.subscriptions(), model.len());
            prop_assert_eq!(shares.len(), usize::from(!model.is_empty()));
        }
    }
}
