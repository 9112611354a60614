//! For how long others may be silent until this node takes them for lost.
//!
//! A node that is cut off hears nobody. If it took one for lost after the other, just as each one's time is over, and came back in the middle of that, those whom it still
//! reaches would hear from it that others are lost that they reach themselves. So a node goes by the silence of another one only while it is *in touch*: with more than
//! half of those that it counts on, itself included. One that is not waits until that one whom it has heard last of the others has been silent for twice as long: all who are in touch have missed it
//! long before that, and it hears so from them when it is back. (Or the first one for four times as long: one that answers now and then keeps nobody waiting for ever.)
//!
//! And a node that heard nobody, and hears somebody again, waits a moment for the others' answers, however long they have been silent: it would tell the first one that the rest is lost. So does one
//! that stood still itself: what others have said meanwhile it has yet to read.
//!
//! Who is taken for lost, is so together with all that seem to be cut off with it, at one moment. Else these would be told of the loss of a node that they reach themselves, if they hear
//! what they cannot answer.

use std::time::Duration;

use cluster::NodeId;
use mqtt::now::Now;

use super::Routes;
use super::link::Link;
use super::table::Slot;
use crate::awake::Awake;

/// The silences of nodes that were cut off at one moment differ by no more: by the time from one question to the next, and by that which an answer takes.
const ONE_CUT: Duration = Duration::from_secs(1);

/// Whether this node is in touch.
#[derive(Debug)]
pub(super) struct Touch {
    awake: Awake,
    /// For how long it had looked when it was not in touch last.
    lost_at: Option<Duration>,
    /// And when it heard nobody last.
    alone_at: Option<Duration>,
}

/// Whom a node hears of those that it counts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hearing {
    Nobody,
    Few,
    Most,
}

/// After how long a silence nodes are given up. `None`: not now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Patience {
    /// Those that were reached: all whose silence is longer are lost, now that that of one is too long.
    pub(super) reached: Option<Duration>,
    /// Those that nobody counts on: they may hold sessions all the same, and whom this node still reaches hears of their loss. So it goes by their silence only while it is in touch, too.
    pub(super) others: Option<Duration>,
}

impl Touch {
    pub(super) fn new(now: Now) -> Self {
        Self {
            awake: Awake::new(now.instant),
            lost_at: None,
            alone_at: None,
        }
    }

    /// Time passes.
    fn look(&mut self, now: Now, hearing: Hearing) {
        // Who stood still itself has not read yet what the others have said meanwhile.
        let stood_still = self.awake.look(now.instant);
        let time = self.awake.time();
        if stood_still || hearing != Hearing::Most {
            self.lost_at = Some(time);
        }
        if stood_still || hearing == Hearing::Nobody {
            self.alone_at = Some(time);
        }
    }

    /// Whether it has heard as much as it hears now for so long.
    fn has_lasted(&self, hearing: Hearing, time: Duration) -> bool {
        let less_at = match hearing {
            Hearing::Nobody => None,
            Hearing::Few => self.alone_at,
            Hearing::Most => self.lost_at,
        };
        less_at.is_none_or(|less_at| self.awake.time() - less_at >= time)
    }
}

impl Routes {
    /// For how long others may be silent, now.
    pub(super) fn patience(&mut self, now: Now) -> Patience {
        let (silence_max, near_max) = self.silence_maxima();
        let hearing = self.hearing(|link| link.silence() <= near_max);
        self.touch.look(now, hearing);
        // An answer counts for half of this time: so others have been heard for the other half.
        if !self.touch.has_lasted(hearing, silence_max) {
            // Whoever hears others again first waits for the answers of the rest: they come in this moment, too.
            return Patience::default();
        }
        let reached = self.patience_with_reached(hearing);
        let others = if hearing == Hearing::Most {
            Some(silence_max)
        } else {
            reached
        };
        Patience { reached, others }
    }

    fn patience_with_reached(&self, hearing: Hearing) -> Option<Duration> {
        let (silence_max, near_max) = self.silence_maxima();
        let far = || {
            let silences = self.reached_links().map(Link::silence);
            silences.filter(|silence| *silence > near_max)
        };
        let (first, last) = (far().max()?, far().min()?);
        if hearing == Hearing::Most {
            return (first > silence_max).then(|| silence_max.saturating_sub(ONE_CUT).max(near_max));
        }
        (last > 2 * silence_max || first > 4 * silence_max).then_some(near_max)
    }

    /// Another node that this one hears has given one up. If this node is not in touch either, and has nearly waited for long enough, it goes on without all that are silent
    /// as well, at this moment: else it would hear of one loss after the other, and count on the rest in between.
    ///
    /// If all hear each other again just now, some have answered this node before they answered the one that has given them up. They are lost on this side all the same, and all before any is found
    /// again: else those that are found first would hear from this node that the others are lost.
    pub(super) fn go_on_without_silent(&mut self, from: NodeId) {
        let (silence_max, near_max) = self.silence_maxima();
        let was_here = |slot: &Slot| self.links[*slot].silence_until(near_max) <= near_max;
        let lately = if self.slots.get(&from).is_some_and(was_here) {
            near_max
        } else {
            Duration::ZERO
        };
        let silence = |link: &Link| link.silence_until(lately);
        let is_nearly_over = |link: &Link| silence(link) > silence_max + near_max;
        if self.hearing(|link| silence(link) <= near_max) == Hearing::Most
            || !self.reached_links().any(is_nearly_over)
        {
            return;
        }
        let links = self.links.iter_mut().map(|(_, link)| link);
        links
            .filter(|link| link.is_reached && silence(link) > near_max)
            .for_each(Link::miss);
    }

    /// For how long one who is silent is not taken for lost, and for how long of that it is near.
    fn silence_maxima(&self) -> (Duration, Duration) {
        let silence_max = self.config.silence_max;
        (silence_max, silence_max / 2)
    }

    /// Most: those that are near, and this node, are more than half of those that are reached; of two halves the one with the lowest id is.
    fn hearing(&self, is_near: impl Fn(&Link) -> bool) -> Hearing {
        let (mut near, mut far, mut lowest) = (1, 0, (self.node, true));
        for link in self.reached_links() {
            let is_near = is_near(link);
            *if is_near { &mut near } else { &mut far } += 1;
            lowest = lowest.min((link.node, is_near));
        }
        if near > far || near == far && lowest.1 {
            Hearing::Most
        } else if near > 1 {
            Hearing::Few
        } else {
            Hearing::Nobody
        }
    }

    fn reached_links(&self) -> impl Iterator<Item = &Link> {
        let links = self.links.iter().map(|(_, link)| link);
        links.filter(|link| link.is_reached)
    }
}
