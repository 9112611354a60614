//! Messages with numbers, each of which says who has published it, and when; and what a subscriber has to have got of them.

use protocol::packet::QoS;
use sim::promises::{q1, q2, q3};

use super::{Places, Who};

/// Publishers use them in turn.
pub(crate) const QOS: [QoS; 2] = [QoS::AtLeastOnce, QoS::ExactlyOnce];

/// What a publisher publishes in a round, of which there are fewer than a thousand.
pub(crate) fn number(publisher: usize, round: u64) -> u64 {
    (publisher as u64 + 1) * 1_000 + round
}

pub(crate) fn publisher_of(number: u64) -> usize {
    number as usize / 1_000 - 1
}

/// What these publishers publish in so many rounds.
pub(crate) fn all_of(publishers: &[usize], rounds: u64) -> impl Iterator<Item = u64> {
    let of_one = move |publisher: &usize| {
        let publisher = *publisher;
        (0..rounds).map(move |round| number(publisher, round))
    };
    publishers.iter().flat_map(of_one)
}

/// With which QoS it is published.
pub(crate) fn qos_of(number: u64) -> QoS {
    QOS[number as usize % 2]
}

impl Places {
    /// Q1, Q2 and Q3 of a subscriber to messages of which these were acknowledged.
    pub(crate) fn check_heard(
        &self,
        who: Who,
        granted: QoS,
        acknowledged: impl IntoIterator<Item = u64>,
        comes_once: impl Fn(u64) -> bool,
    ) -> Result<(), String> {
        let name = format!("{} {granted:?}", who.name(self));
        let (mut delivered, mut order) = (q2::Delivered::default(), q3::Order::default());
        for number in self.heard(who) {
            let published = qos_of(number);
            let is_exactly_once = published.min(granted) == QoS::ExactlyOnce && comes_once(number);
            if delivered.note(&name, &number, is_exactly_once)? {
                order.first(&name, (&(publisher_of(number), published), number), false)?;
            }
        }
        q1::check(&name, acknowledged, delivered.all())
    }
}
