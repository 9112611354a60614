use std::collections::BTreeMap;

use proptest::prelude::*;
use protocol::Text;

use super::*;

const SEED: u64 = 0x5eed;

fn filter(text: &str) -> TopicFilter {
    TopicFilter::parse(Text::new(text).unwrap()).unwrap()
}

fn with_id(id: u32) -> Subscription {
    Subscription {
        id: SubscriptionId::new(id),
        ..Subscription::default()
    }
}

/// Subscribes a session to each filter, its key being the filter's position, and returns who gets a message to `topic`.
fn receivers(filters: &[&str], topic: &str) -> Vec<u32> {
    let mut subscriptions = Subscriptions::new(SEED);
    for (key, text) in (0..).zip(filters) {
        subscriptions.subscribe(SessionKey(key), &filter(text), Subscription::default());
    }
    matching(&subscriptions, topic)
        .into_iter()
        .map(|(key, _)| key.0)
        .collect()
}

fn matching(subscriptions: &Subscriptions, topic: &str) -> Vec<(SessionKey, Subscription)> {
    let mut found = vec![];
    subscriptions.matches(topic, &mut |session, subscription| {
        found.push((session, *subscription));
    });
    found.sort_unstable_by_key(|(session, subscription)| (*session, subscription.id));
    found
}

#[test]
fn filters_match_as_the_specification_shows() {
    let filters = [
        "sport/tennis/player1/#",
        "sport/#",
        "#",
        "sport/tennis/+",
        "+",
        "+/+",
        "/+",
        "sport/+",
    ];
    assert_eq!(receivers(&filters, "sport/tennis/player1"), [0, 1, 2, 3]);
    assert_eq!(receivers(&filters, "sport/tennis/player1/ranking"), [0, 1, 2]);
    assert_eq!(receivers(&filters, "sport"), [1, 2, 4]);
    assert_eq!(receivers(&filters, "sport/"), [1, 2, 5, 7]);
    assert_eq!(receivers(&filters, "/finance"), [2, 5, 6]);
}

#[test]
fn mqtt_4_7_2_1_wildcards_at_the_start_do_not_match_dollar_topics() {
    let filters = [
        "#",
        "+/monitor/Clients",
        "$SYS/#",
        "$SYS/monitor/+",
        "$SYS/monitor/Clients",
    ];
    assert_eq!(receivers(&filters, "$SYS/monitor/Clients"), [2, 3, 4]);
    assert_eq!(receivers(&filters, "a/monitor/Clients"), [0, 1]);
}

#[test]
fn mqtt_4_7_3_4_names_are_compared_with_case_and_empty_levels() {
    assert_eq!(
        receivers(&["ACCOUNTS", "Accounts", "/Accounts", "Accounts/"], "Accounts"),
        [1]
    );
}

#[test]
fn mqtt_3_8_4_3_a_second_subscription_to_a_filter_replaces_the_first() {
    for text in ["a/b", "a/+", "a/#"] {
        let mut subscriptions = Subscriptions::new(SEED);
        assert_eq!(
            subscriptions.subscribe(SessionKey(1), &filter(text), with_id(1)),
            None
        );
        assert_eq!(
            subscriptions.subscribe(SessionKey(1), &filter(text), with_id(2)),
            Some(with_id(1))
        );
        assert_eq!(matching(&subscriptions, "a/b"), [(SessionKey(1), with_id(2))]);
        assert_eq!(subscriptions.len(), 1);
    }
}

#[test]
fn overlapping_subscriptions_of_one_session_are_all_visited() {
    let mut subscriptions = Subscriptions::new(SEED);
    for (id, text) in (1..).zip(["a/b", "a/+", "a/#", "#"]) {
        subscriptions.subscribe(SessionKey(1), &filter(text), with_id(id));
    }
    let ids = matching(&subscriptions, "a/b")
        .into_iter()
        .map(|(_, subscription)| subscription.id.unwrap().get());
    assert_eq!(ids.collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[test]
fn nothing_is_left_of_filters_without_subscribers() {
    let filters = ["a/b/c", "a/+/c/#", "a/+", "+/+/+", "#", "a/b/#"];
    let mut subscriptions = Subscriptions::new(SEED);
    for key in [1, 2] {
        for text in filters {
            subscriptions.subscribe(SessionKey(key), &filter(text), Subscription::default());
        }
    }
    for key in [2, 1] {
        for text in filters {
            assert!(subscriptions.unsubscribe(SessionKey(key), &filter(text)));
            assert!(!subscriptions.unsubscribe(SessionKey(key), &filter(text)));
        }
    }
    assert!(subscriptions.is_empty());
    assert_eq!(subscriptions.index.exact.entries(), 0);
    assert_eq!(subscriptions.index.wildcards.nodes(), 1, "the root stays");
}

#[test]
fn neither_depth_nor_width_uses_the_stack() {
    let deep = "a/".repeat(30_000) + "+";
    let mut subscriptions = Subscriptions::new(SEED);
    subscriptions.subscribe(SessionKey(1), &filter(&deep), Subscription::default());
    assert_eq!(matching(&subscriptions, &deep.replace('+', "b")).len(), 1);
    assert!(subscriptions.unsubscribe(SessionKey(1), &filter(&deep)));
    assert_eq!(subscriptions.index.wildcards.nodes(), 1);
}

/// The most nodes that a message visits, from the filters alone.
fn reach_of(model: &BTreeMap<(SessionKey, TopicFilter), Subscription>) -> u32 {
    let wildcards = model
        .keys()
        .map(|(_, filter)| filter)
        .filter(|filter| !filter.is_exact());
    let levels = |filter: &TopicFilter| -> Vec<String> {
        let levels = filter.as_str().split('/').filter(|level| *level != "#");
        levels.map(str::to_owned).collect()
    };
    reach_below(&wildcards.map(levels).collect::<Vec<_>>())
}

fn reach_below(filters: &[Vec<String>]) -> u32 {
    let mut children: BTreeMap<&str, Vec<Vec<String>>> = BTreeMap::new();
    for (first, rest) in filters.iter().filter_map(|levels| levels.split_first()) {
        children.entry(first).or_default().push(rest.to_vec());
    }
    let plus = children.remove("+").map_or(0, |below| reach_below(&below));
    let named = children.values().map(|below| reach_below(below)).max();
    1 + plus + named.unwrap_or(0)
}

#[derive(Debug, Clone)]
enum Call {
    Subscribe { session: u32, filter: String, id: u32 },
    Unsubscribe { session: u32, filter: String },
    Match { topic: String },
}

const FILTER: &str = "(\\+|#|\\$?[ab]{1,2})|(\\+|\\$?[ab]{0,2})(/(\\+|[ab]{0,1})){1,3}(/#)?";

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        3 => (0..3_u32, FILTER, 1..9_u32)
            .prop_map(|(session, filter, id)| Call::Subscribe { session, filter, id }),
        2 => (0..3_u32, FILTER).prop_map(|(session, filter)| Call::Unsubscribe { session, filter }),
        2 => "\\$?[ab]{0,2}(/[ab]{0,1}){0,4}".prop_map(|topic| Call::Match { topic }),
    ];
    prop::collection::vec(call, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn subscriptions_behave_like_a_list_of_filters(calls in calls(), seed: u64) {
        let mut subscriptions = Subscriptions::new(seed);
        let mut model: BTreeMap<(SessionKey, TopicFilter), Subscription> = BTreeMap::new();
        for call in calls {
            match call {
                Call::Subscribe { session, filter: text, id } => {
                    let (session, filter) = (SessionKey(session), filter(&text));
                    let (_, foreseen) = subscriptions.reach_with(&filter);
                    let replaced = subscriptions.subscribe(session, &filter, with_id(id));
                    prop_assert_eq!(foreseen, subscriptions.index.wildcards.reach());
                    prop_assert_eq!(replaced, model.insert((session, filter), with_id(id)));
                }
                Call::Unsubscribe { session, filter: text } => {
                    // Mostly one that is there.
                    let (session, filter) = (SessionKey(session), filter(&text));
                    let found = model.keys().find(|(_, other)| *other >= filter).cloned();
                    let (session, filter) = found.unwrap_or((session, filter));
                    let existed = subscriptions.unsubscribe(session, &filter);
                    prop_assert_eq!(existed, model.remove(&(session, filter)).is_some());
                }
                Call::Match { topic } => {
                    let matches = model.iter().filter(|((_, filter), _)| filter.matches(&topic));
                    let mut expected: Vec<_> =
                        matches.map(|((session, _), subscription)| (*session, *subscription)).collect();
                    expected.sort_unstable_by_key(|(session, subscription)| (*session, subscription.id));
                    let before = subscriptions.visited();
                    prop_assert_eq!(matching(&subscriptions, &topic), expected);
                    // The root is not counted.
                    let visited = subscriptions.visited() - before;
                    prop_assert!(visited < u64::from(subscriptions.index.wildcards.reach()));
                }
            }
            prop_assert_eq!(subscriptions.index.wildcards.reach(), reach_of(&model));
            prop_assert_eq!(subscriptions.len(), model.len());
        }
    }
}
