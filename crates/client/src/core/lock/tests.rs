use super::*;
use crate::core::tests::origin;

/// A contender with a lease of 10 s, on virtual time.
struct Story {
    contender: Contender,
    start: Instant,
    now: Instant,
}

impl Story {
    fn begin() -> Self {
        let start = origin();
        Self {
            contender: Contender::new(Duration::from_secs(10)),
            start,
            now: start,
        }
    }

    /// What follows from `event`, `seconds` after the start.
    fn at(&mut self, seconds: f64, event: Event) -> Vec<Action> {
        self.now = self.start + Duration::from_secs_f64(seconds);
        let mut actions = Vec::new();
        self.contender.step(self.now, event, &mut actions);
        actions
    }

    fn deadline(&self) -> Option<f64> {
        self.contender
            .deadline()
            .map(|deadline| (deadline - self.start).as_secs_f64())
    }

    fn held(&self, token: u64, until: f64) -> Action {
        Action::Held {
            token: hlc(token),
            until: self.start + Duration::from_secs_f64(until),
        }
    }
}

fn hlc(wall: u64) -> Hlc {
    Hlc {
        wall,
        counter: 1,
        node: protocol::Text::from_static("StateStore"),
    }
}

fn stored(token: u64) -> Event {
    Event::Answered(Answer::Stored(hlc(token)))
}

fn set(seconds: f64) -> Action {
    Action::Set {
        timeout: Duration::from_secs_f64(seconds),
    }
}

fn delete(seconds: f64) -> Action {
    Action::Delete {
        timeout: Duration::from_secs_f64(seconds),
    }
}

#[test]
fn a_free_lock_is_had_with_one_request_and_renewed_every_third_of_its_lease() {
    let mut story = Story::begin();
    assert_eq!(story.at(0.0, Event::Start), [set(10.0)]);
    assert_eq!(
        story.at(1.0, stored(1)),
        [story.held(1, 9.5)],
        "counted from before the request"
    );
    assert!((story.deadline().unwrap() - 10.0 / 3.0).abs() < 1e-6);
    assert_eq!(story.at(3.5, Event::Timeout), [set(6.0)]);
    assert_eq!(story.at(4.0, stored(2)), [story.held(2, 13.0)]);
}

#[test]
fn a_taken_lock_is_watched_before_it_is_asked_for_again() {
    let mut story = Story::begin();
    story.at(0.0, Event::Start);
    assert_eq!(story.at(0.1, Event::Answered(Answer::Refused)), [Action::Watch]);
    assert_eq!(
        story.at(0.2, Event::Watching),
        [set(10.0)],
        "it may have been freed before the watch"
    );
    assert_eq!(story.at(0.3, Event::Answered(Answer::Refused)), []);
    assert_eq!(story.at(5.0, Event::Freed), [set(10.0)]);
    assert_eq!(story.at(5.1, stored(7)), [Action::Unwatch, story.held(7, 14.5)]);
}

#[test]
fn a_lock_freed_while_the_request_is_under_way_is_asked_for_at_once() {
    let mut story = Story::begin();
    story.at(0.0, Event::Start);
    story.at(0.1, Event::Answered(Answer::Refused));
    story.at(0.2, Event::Watching);
    assert_eq!(story.at(0.3, Event::Freed), []);
    assert_eq!(story.at(0.4, Event::Answered(Answer::Refused)), [set(10.0)]);
}

#[test]
fn a_lost_notification_costs_one_lease() {
    let mut story = Story::begin();
    story.at(0.0, Event::Start);
    story.at(0.1, Event::Answered(Answer::Refused));
    story.at(0.2, Event::Watching);
    story.at(1.0, Event::Answered(Answer::Refused));
    assert_eq!(story.deadline(), Some(11.0));
    assert_eq!(story.at(11.0, Event::Timeout), [set(10.0)]);
}

#[test]
fn a_lease_that_cannot_be_renewed_is_lost_before_the_store_ends_it() {
    let mut story = Story::begin();
    story.at(0.0, Event::Start);
    story.at(0.1, stored(1));
    assert_eq!(story.at(4.0, Event::Timeout), [set(5.5)]);
    assert_eq!(story.at(6.0, Event::Answered(Answer::Unknown)), []);
    assert_eq!(story.deadline(), Some(7.0), "another attempt");
    assert_eq!(story.at(7.0, Event::Timeout), [set(2.5)]);
    assert_eq!(story.deadline(), Some(9.5));
    assert_eq!(
        story.at(9.5, Event::Timeout),
        [Action::Lost(Loss::Expired), delete(10.0)]
    );
    assert_eq!(
        story.at(9.6, stored(2)),
        [],
        "an answer that came too late gives nothing back"
    );
    assert_eq!(story.at(9.7, Event::Deleted), [Action::Ended]);
}

#[test]
fn a_lock_that_another_has_is_lost_at_once() {
    let mut story = Story::begin();
    story.at(0.0, Event::Start);
    story.at(0.1, stored(1));
    story.at(4.0, Event::Timeout);
    assert_eq!(
        story.at(4.1, Event::Answered(Answer::Refused)),
        [Action::Lost(Loss::TakenOver), Action::Ended]
    );
}

#[test]
fn an_answer_older_than_the_lease_does_not_count() {
    let mut story = Story::begin();
    story.at(0.0, Event::Start);
    assert_eq!(story.at(9.5, stored(1)), [set(10.0)]);
    assert_eq!(story.at(9.6, stored(2)), [story.held(2, 19.0)]);
}

#[test]
fn release_deletes_whatever_the_state_and_ends_once() {
    for events in [vec![], vec![Event::Start], vec![Event::Start, stored(1)]] {
        let mut story = Story::begin();
        for event in events.clone() {
            story.at(0.1, event);
        }
        let mut actions = story.at(0.2, Event::Release);
        actions.extend(story.at(0.3, Event::Deleted));
        let expected = if events.is_empty() {
            vec![]
        } else {
            vec![delete(10.0)]
        };
        assert_eq!(
            actions,
            [expected, vec![Action::Ended]].concat(),
            "after {events:?}"
        );
        assert_eq!(story.at(0.4, Event::Release), []);
    }
}

#[test]
fn a_release_is_tried_again_until_the_store_has_ended_the_lease() {
    let mut story = Story::begin();
    story.at(0.0, Event::Start);
    assert_eq!(story.at(2.0, Event::Release), [delete(10.0)]);
    assert_eq!(story.at(3.0, Event::NotDeleted), []);
    assert_eq!(story.deadline(), Some(4.0));
    assert_eq!(story.at(3.5, Event::Timeout), [], "not yet");
    assert_eq!(story.at(3.5, Event::Release), [], "it is under way");
    assert_eq!(story.at(4.0, Event::Timeout), [delete(8.0)]);
    assert_eq!(story.at(11.0, Event::NotDeleted), [Action::Ended]);
    assert_eq!(story.deadline(), None);
}
