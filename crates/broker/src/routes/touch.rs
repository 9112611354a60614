//! For how long others may be silent until this node takes them for lost.
//!
//! A node that is cut off hears nobody. If it took one for lost after the other, just as each one's time is over, and came back in the middle of that, those whom it still
//! reaches would hear from it that others are lost that they reach themselves. So a node goes by the silence of another one only while it is *in touch*: with more than
//! half of those that it counts on, itself included. One that is not waits twice as long. Those who are in touch have missed it long before that, and it hears so from them when it is back.
//!
//! Who is taken for lost, is so together with all that seem to be cut off with it, at one moment. Else these would be told of the loss of a node that they reach themselves, if they hear
//! what they cannot answer.

use std::time::{Duration, Instant};

use super::Routes;
use super::link::{Link, PROBE_IDLE};
use crate::now::Now;

/// The silences of nodes that were cut off at one moment differ by no more: by the time from one question to the next, and by that which an answer takes.
const ONE_CUT: Duration = Duration::from_secs(1);

/// Whether this node is in touch.
#[derive(Debug)]
pub(super) struct Touch {
    looked_at: Instant,
    /// For how long it has looked, without the times when it was not awake itself.
    awake: Duration,
    /// How long that was when it was not in touch last.
    lost_at: Option<Duration>,
}

impl Touch {
    pub(super) fn new(now: Now) -> Self {
        Self {
            looked_at: now.instant,
            awake: Duration::ZERO,
            lost_at: None,
        }
    }

    /// Time passes.
    fn look(&mut self, now: Now, is_in_touch: bool) {
        let passed = now.instant.saturating_duration_since(self.looked_at);
        self.looked_at = now.instant;
        self.awake += passed.min(PROBE_IDLE);
        if !is_in_touch {
            self.lost_at = Some(self.awake);
        }
    }

    /// Whether it has been for so long.
    fn has_lasted(&self, time: Duration) -> bool {
        self.lost_at.is_none_or(|lost_at| self.awake - lost_at >= time)
    }
}

impl Routes {
    /// After how long a silence a node that was reached is lost, now that one has been silent for too long. `None`: none has, or it is not known yet.
    pub(super) fn patience(&mut self, now: Now) -> Option<Duration> {
        let silence_max = self.config.silence_max;
        let near_max = silence_max / 2;
        let is_in_touch = self.hears_most(near_max);
        self.touch.look(now, is_in_touch);
        let (silent_max, together) = if !is_in_touch {
            (2 * silence_max, near_max)
        } else if self.touch.has_lasted(near_max) {
            (silence_max, silence_max.saturating_sub(ONE_CUT).max(near_max))
        } else {
            // Whoever is in touch again first waits for the answers of the others: they come in this moment, too.
            return None;
        };
        let mut links = self.reached_links();
        let is_over = links.any(|link| link.silence() > silent_max);
        is_over.then_some(together)
    }

    /// Another node that this one hears has given one up. If this node is not in touch either, and has nearly waited for long enough, it goes on without all that are silent
    /// as well, at this moment: else it would hear of one loss after the other, and count on the rest in between.
    pub(super) fn go_on_without_silent(&mut self) {
        let silence_max = self.config.silence_max;
        let near_max = silence_max / 2;
        let is_nearly_over = |link: &Link| link.silence() > silence_max + near_max;
        if self.hears_most(near_max) || !self.reached_links().any(is_nearly_over) {
            return;
        }
        let links = self.links.iter_mut().map(|(_, link)| link);
        links
            .filter(|link| link.is_reached && link.silence() > near_max)
            .for_each(Link::miss);
    }

    /// Whether those that were not silent for longer, and this node, are more than half of those that are reached; of two halves the one with the lowest id is.
    fn hears_most(&self, near_max: Duration) -> bool {
        let (mut near, mut far, mut lowest) = (1, 0, (self.node, true));
        for link in self.reached_links() {
            let is_near = link.silence() <= near_max;
            *if is_near { &mut near } else { &mut far } += 1;
            lowest = lowest.min((link.node, is_near));
        }
        near > far || near == far && lowest.1
    }

    fn reached_links(&self) -> impl Iterator<Item = &Link> {
        let links = self.links.iter().map(|(_, link)| link);
        links.filter(|link| link.is_reached)
    }
}
