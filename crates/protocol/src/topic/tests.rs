//! What is a topic name or filter, and which names a filter matches.

use proptest::prelude::*;

use super::*;

fn name(name: &str) -> Result<TopicName, TopicNameError> {
    TopicName::parse(Text::new(name).unwrap())
}

fn filter(filter: &str) -> Result<TopicFilter, TopicFilterError> {
    TopicFilter::parse(Text::new(filter).unwrap())
}

fn subscription(filter: &str) -> Result<SubscriptionFilter, TopicFilterError> {
    SubscriptionFilter::parse(Text::new(filter).unwrap())
}

/// Checks for each topic name whether `filter` matches it.
fn check_matches(filter_text: &str, matching: &[&str], others: &[&str]) {
    let filter = filter(filter_text).unwrap();
    for topic in matching {
        assert!(filter.matches(topic), "{filter_text} matches {topic}");
    }
    for topic in others {
        assert!(!filter.matches(topic), "{filter_text} does not match {topic}");
    }
}

#[test]
fn mqtt_4_7_0_1_a_topic_name_has_no_wildcard() {
    assert_eq!(name("a/+"), Err(TopicNameError::Wildcard));
    assert_eq!(name("a#"), Err(TopicNameError::Wildcard));
    assert_eq!(name("a/b").unwrap().as_str(), "a/b");
}

#[test]
fn mqtt_4_7_1_1_the_multi_level_wildcard_fills_the_last_level() {
    for text in ["#", "sport/tennis/#", "/#", "+/#"] {
        assert_eq!(filter(text).unwrap().as_str(), text);
    }
    for text in [
        "sport/tennis#",
        "sport/tennis/#/ranking",
        "#/",
        "##",
        "a/#b",
        "#+",
    ] {
        assert_eq!(filter(text), Err(TopicFilterError::MisplacedWildcard), "{text}");
    }
}

#[test]
fn mqtt_4_7_1_2_the_single_level_wildcard_fills_a_level() {
    for text in ["+", "+/tennis/#", "sport/+/player1", "/+", "+/+"] {
        assert_eq!(filter(text).unwrap().as_str(), text);
    }
    for text in ["sport+", "+a", "a/b+/c", "++"] {
        assert_eq!(filter(text), Err(TopicFilterError::MisplacedWildcard), "{text}");
    }
}

#[test]
fn mqtt_4_7_2_1_wildcards_at_the_start_leave_out_dollar_topics() {
    check_matches("#", &["a", "/", "a/$b"], &["$SYS/x", "$"]);
    check_matches(
        "+/monitor/Clients",
        &["a/monitor/Clients"],
        &["$SYS/monitor/Clients"],
    );
    check_matches("$SYS/#", &["$SYS", "$SYS/a/b"], &["a", "SYS/a"]);
    check_matches("$SYS/monitor/+", &["$SYS/monitor/Clients"], &["$SYS/monitor"]);
}

#[test]
fn mqtt_4_7_3_1_names_and_filters_are_not_empty() {
    assert_eq!(name(""), Err(TopicNameError::Empty));
    assert_eq!(filter(""), Err(TopicFilterError::Empty));
    assert_eq!(name(" ").unwrap().as_str(), " ");
    assert_eq!(name("/").unwrap().levels().collect::<Vec<_>>(), ["", ""]);
}

#[test]
fn mqtt_4_7_3_3_names_have_at_most_65_535_bytes() {
    let longest = "x".repeat(65_535);

    assert_eq!(name(&longest).unwrap().as_str(), longest);
    assert_eq!(
        Text::new("x".repeat(65_536)),
        Err(crate::text::TextError::TooLong)
    );
}

#[test]
fn mqtt_4_7_3_4_names_are_compared_as_they_are() {
    check_matches("ACCOUNTS", &["ACCOUNTS"], &["Accounts", "accounts"]);
    // U+0041 U+030A and U+00C5 look the same.
    check_matches("A\u{030A}", &["A\u{030A}"], &["\u{00C5}"]);
}

#[test]
fn the_examples_of_the_specification_match() {
    let below = [
        "sport/tennis/player1",
        "sport/tennis/player1/ranking",
        "sport/tennis/player1/score/wimbledon",
    ];
    check_matches("sport/tennis/player1/#", &below, &["sport/tennis/player2"]);
    check_matches("sport/#", &["sport", "sport/", "sport/a"], &["sports"]);
    check_matches(
        "sport/tennis/+",
        &["sport/tennis/player1"],
        &["sport/tennis/player1/ranking", "sport/tennis"],
    );
    check_matches("sport/+", &["sport/"], &["sport"]);
    check_matches("+/+", &["/finance"], &["finance", "a/b/c"]);
    check_matches("/+", &["/finance"], &["finance"]);
    check_matches("+", &["finance"], &["/finance"]);
}

#[test]
fn mqtt_4_8_2_1_a_share_name_has_a_character_at_least() {
    assert_eq!(subscription("$share//a"), Err(TopicFilterError::Share));
    let shared = subscription("$share/s/a/+").unwrap();
    assert_eq!(shared.share.as_deref(), Some("s"));
    assert_eq!(shared.filter.as_str(), "a/+");
    assert_eq!(shared.to_string(), "$share/s/a/+");
}

#[test]
fn mqtt_4_8_2_2_a_share_name_has_no_wildcard_and_a_filter_follows() {
    for text in ["$share/+/a", "$share/g#/a", "$share/g", "$share/g/", "$share/"] {
        assert_eq!(subscription(text), Err(TopicFilterError::Share), "{text}");
    }
    assert_eq!(
        subscription("$share/g/a#"),
        Err(TopicFilterError::MisplacedWildcard)
    );
    assert_eq!(subscription("$share/g//").unwrap().filter.as_str(), "/");
}

#[test]
fn only_a_whole_first_level_makes_a_shared_subscription() {
    for text in ["$share", "$shared/g/a", "share/g/a", "$SHARE/g/a"] {
        let own = subscription(text).unwrap();
        assert_eq!((own.share.as_ref(), own.filter.as_str()), (None, text));
    }
}

#[test]
fn levels_are_counted() {
    assert_eq!(name("a").unwrap().level_count(), 1);
    assert_eq!(filter("/a//").unwrap().level_count(), 4);
    assert_eq!(
        filter("/a//").unwrap().levels().collect::<Vec<_>>(),
        ["", "a", "", ""]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn a_filter_matches_what_the_specification_says(filter_text in "[ab$/+#]{1,8}", topic in "[ab$/]{1,8}") {
        if let Ok(filter) = filter(&filter_text) {
            let levels: Vec<&str> = filter.levels().collect();
            let names: Vec<&str> = topic.split('/').collect();
            let is_hidden = topic.starts_with('$') && matches!(levels[0], "+" | "#");
            prop_assert_eq!(filter.matches(&topic), !is_hidden && naive_match(&levels, &names));
        }
    }

    #[test]
    fn a_filter_is_what_the_specification_says(text in "[a/+#]{1,6}") {
        let levels: Vec<&str> = text.split('/').collect();
        let is_filter = levels.iter().enumerate().all(|(index, level)| match *level {
            "+" => true,
            "#" => index + 1 == levels.len(),
            level => !level.contains(['+', '#']),
        });
        prop_assert_eq!(filter(&text).is_ok(), is_filter);
    }

    #[test]
    fn an_exact_filter_matches_its_own_name_only(text in "[ab/]{1,4}", topic in "[ab/]{1,4}") {
        let filter = filter(&text).unwrap();
        prop_assert!(filter.is_exact());
        prop_assert_eq!(filter.matches(&topic), text == topic);
    }
}

/// Word by word from section 4.7.1, level by level.
fn naive_match(filter: &[&str], topic: &[&str]) -> bool {
    match (filter, topic) {
        ([], []) => true,
        (["#"], _) => true,
        (["+", filter @ ..], [_, topic @ ..]) => naive_match(filter, topic),
        ([level, filter @ ..], [name, topic @ ..]) => level == name && naive_match(filter, topic),
        _ => false,
    }
}
