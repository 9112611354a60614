//! Time of a group: leases end by it, and outcomes are remembered by it.
//!
//! No wall clock has a say in it while the group lives. The leader counts on its monotonic clock from what it knew when it took
//! office, and stamps each entry with it. It tells the others once a second, and each counts on from there. So the next leader is behind by
//! the way of one message at most, and a lease may last longer by a failover, never shorter.
//!
//! After a start a node knows nothing but its log. It leads only with what a majority knows: the time of one that has heard a leader in
//! its run, the latest of these. If none of them has, the group stood still. Then the wall clock bridges the gap, as far as a majority
//! sees it alike. Where wall clocks do not agree it is not bridged: a lease that lasts too long is better than one that ends too soon.
//!
//! Invariant: what is known here is never ahead of the time that has passed, and nothing is stamped before it is known.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::replica::Members;
use cluster::{NodeId, Term};
use mqtt::now::Now;
use store::{Stamp, WALL_MAX};

use super::peers::PeerMessage;
use super::{Output, StateStoreService};

/// Time of a group as one of its replicas knows it.
#[derive(Debug, Default)]
pub(super) struct GroupTime {
    known: Option<Known>,
    /// Term of the last leader that has said what time it is, or whose entries have.
    heard_in: Term,
    /// What a leader that does not know the time was told, by node.
    told: BTreeMap<NodeId, Told>,
    /// Since when it waits for more of that.
    asked_at: Option<Instant>,
    /// When the leader tells the others, or asks them again.
    due: Option<Instant>,
}

/// A moment of which the group time is known, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Known {
    at: Instant,
    time: u64,
}

/// What a replica says of the time when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    /// Whether it has heard a leader in its run, or has led; or else it reckons by its log and its wall clock.
    pub(super) is_known: bool,
    /// Group time, in milliseconds.
    pub(super) time: u64,
}

/// On what the time of a new leader rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basis {
    /// A replica has heard a leader in its run.
    Known,
    /// The wall clocks of a majority agree on how long the group stood still.
    WallClocks,
    /// They do not: it goes on from its log.
    Log,
}

/// How often the leader tells the others what time it is.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// After so long a leader asks again those that have not answered.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// So long a leader waits for replicas that know more than a majority which knows nothing.
const WAITED_FOR: Duration = Duration::from_millis(500);

/// Times that replicas reckon are alike if they are no further apart.
const ALIKE: Duration = Duration::from_secs(1);

/// A follower that is ahead lets its leader catch up by one part in so many of the time that passes: clocks of computers run apart by
/// less, 500 millionths each.
const CATCHES_UP: u32 = 1_000;

impl GroupTime {
    pub(super) fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// The time now, but not before that of the log.
    fn now(&self, now: Instant, log: Stamp) -> u64 {
        let time = self.known.map_or(0, |known| known.now(now));
        time.max(log.time).min(WALL_MAX)
    }

    /// When it will be `time`; none: it is not known.
    fn instant_of(&self, time: u64) -> Option<Instant> {
        let known = self.known?;
        let left = Duration::from_millis(time.saturating_sub(known.time));
        // What lies beyond any clock is never due.
        known.at.checked_add(left)
    }

    fn learn(&mut self, at: Instant, time: u64) {
        self.known = Some(Known { at, time });
    }

    /// Takes what the leader of a term says. The first word of a new one holds: leases are stamped with its time from then on, and must
    /// not end by one that is ahead. Later ones may have been long on their way. Who is ahead of them lets the leader catch up by a part
    /// of the time that has passed, more than clocks run apart.
    fn hear(&mut self, now: Instant, term: Term, said: u64) {
        let is_first = self.heard_in < term;
        self.heard_in = self.heard_in.max(term);
        let kept = self.known.filter(|_| !is_first);
        let own = kept.map_or(0, |known| {
            let passed = now.saturating_duration_since(known.at) / CATCHES_UP;
            known.now(now).saturating_sub(millis(passed))
        });
        self.learn(now, own.max(said));
    }

    /// Takes the time of an entry. It is the first word of a leader that has said nothing else yet: its messages may be late, and
    /// leases are stamped with its time already. A replica that knows no time learns none, since the log may be old.
    fn apply(&mut self, now: Instant, term: Term, time: u64) {
        if self.known.is_some() && self.heard_in < term {
            self.hear(now, term, time);
        }
    }

    /// Takes what a replica says.
    fn take(&mut self, now: Instant, from: NodeId, told: Told) {
        self.told.insert(from, told);
        self.asked_at.get_or_insert(now);
    }

    /// Decides what time it is, if enough have said what they know. On what it rests; `log`: the time of the log.
    fn decide(&mut self, now: Instant, members: &Members, log: u64) -> Option<Basis> {
        if !members.has_majority(|node| self.told.contains_key(&node)) {
            return None;
        }
        let latest_known = self
            .told
            .values()
            .filter(|told| told.is_known)
            .map(|told| told.time);
        let (basis, time) = if let Some(known) = latest_known.max() {
            (Basis::Known, known)
        } else {
            let is_all = members.all().iter().all(|node| self.told.contains_key(node));
            let is_over = self
                .asked_at
                .is_some_and(|at| now.saturating_duration_since(at) >= WAITED_FOR);
            if !is_all && !is_over {
                return None;
            }
            agreed(&self.told, members).map_or((Basis::Log, log), |time| (Basis::WallClocks, time))
        };
        self.forget_told();
        self.learn(now, time);
        Some(basis)
    }

    fn forget_told(&mut self) {
        self.told.clear();
        self.asked_at = None;
    }
}

impl Known {
    fn now(self, now: Instant) -> u64 {
        self.time
            .saturating_add(millis(now.saturating_duration_since(self.at)))
    }
}

/// The earliest time of those that a majority reckons alike; none: clocks are too far apart.
fn agreed(told: &BTreeMap<NodeId, Told>, members: &Members) -> Option<u64> {
    let starts = told.values().map(|told| told.time);
    let is_agreed = |start: &u64| {
        let alike = *start..=start.saturating_add(millis(ALIKE));
        members.has_majority(|node| told.get(&node).is_some_and(|told| alike.contains(&told.time)))
    };
    starts.filter(is_agreed).min()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl StateStoreService {
    /// Group time now, in milliseconds: as far as it is known here, and not before that of the log.
    pub(super) fn time(&self, now: Now) -> u64 {
        self.time.now(now.instant, self.store.stamp())
    }

    /// Stamp of an entry that is proposed now.
    ///
    /// The wall clock is read now: the first command may have waited for the disk for long, and the last one would be executed before
    /// it was sent.
    pub(super) fn stamp(&self, now: Now) -> Stamp {
        let stamp = Stamp {
            clock: now.wall.min(WALL_MAX),
            time: self.time(now),
        };
        stamp.max(self.store.stamp())
    }

    /// When a deadline of the store is reached, as far as the time is known here.
    pub(super) fn instant_of(&self, deadline: u64) -> Option<Instant> {
        self.time.instant_of(deadline)
    }

    /// What this node says of the time.
    fn told(&self, now: Now) -> Told {
        let log = self.store.stamp();
        // Own clocks, not the one that nodes agree on: two that follow a third one are no majority.
        let gap = now.system_wall.min(WALL_MAX).saturating_sub(log.clock);
        let is_known = self.time.is_known();
        let time = if is_known {
            self.time(now)
        } else {
            log.time.saturating_add(gap).min(WALL_MAX)
        };
        Told { is_known, time }
    }

    /// Whoever is alone has nobody to ask.
    pub(super) fn begin_time(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if self.replica.is_alone() && !self.time.is_known() {
            self.take_own_time(now, outputs);
        }
    }

    /// Somebody else leads, or nobody does; if it is this node, it has to know the time.
    pub(super) fn time_of_new_leader(&mut self, now: Now, outputs: &mut Vec<Output>) {
        self.time.forget_told();
        self.time.due = None;
        if !self.replica.is_leader() {
            return;
        }
        self.time.heard_in = self.replica.term();
        self.time.due = Some(now.instant);
        self.time_timeout(now, outputs);
    }

    /// Tells the others the time, or asks them, if it is time to.
    pub(super) fn time_timeout(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if self.time.due.is_none_or(|due| due > now.instant) {
            return;
        }
        if !self.time.is_known() {
            self.take_own_time(now, outputs);
        }
        let (message, every) = if self.time.is_known() {
            let time = self.time(now);
            (PeerMessage::Time { time }, TOLD_EVERY)
        } else {
            (PeerMessage::TimeAsked, ASKED_EVERY)
        };
        self.time.due = Some(now.instant + every);
        let others = self.replica.peers();
        outputs.extend(others.map(|peer| self.to_peer(peer, &message)));
    }

    pub(super) fn time_deadline(&self) -> Option<Instant> {
        self.time.due
    }

    /// The leader says what time it is.
    pub(super) fn heard_time(&mut self, now: Now, from: NodeId, time: u64) {
        if self.forwarding.leader == Some(from) && !self.replica.is_leader() {
            self.time.hear(now.instant, self.replica.term(), time);
        }
    }

    /// An entry of the log is applied.
    pub(super) fn time_of_entry(&mut self, now: Now, term: Term, stamp: Stamp) {
        self.time.apply(now.instant, term, stamp.time);
    }

    /// A new leader asks.
    pub(super) fn asked_for_time(&mut self, now: Now, from: NodeId, outputs: &mut Vec<Output>) {
        if self.replica.members().contains(from) {
            let told = self.told(now);
            outputs.push(self.to_peer(from, &PeerMessage::TimeTold(told)));
        }
    }

    /// Another replica answers.
    pub(super) fn told_time(&mut self, now: Now, from: NodeId, told: Told, outputs: &mut Vec<Output>) {
        let is_wanted = self.replica.is_leader() && !self.time.is_known();
        if !is_wanted || !self.replica.members().contains(from) {
            return;
        }
        self.take_time(now, from, told, outputs);
        if self.time.is_known() {
            self.time.due = Some(now.instant);
            self.time_timeout(now, outputs);
        }
    }

    fn take_own_time(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let own = self.told(now);
        self.take_time(now, NodeId(self.config.node), own, outputs);
    }

    fn take_time(&mut self, now: Now, from: NodeId, told: Told, outputs: &mut Vec<Output>) {
        self.time.take(now.instant, from, told);
        self.decide_time(now, outputs);
    }

    fn decide_time(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let log = self.store.stamp().time;
        let basis = self.time.decide(now.instant, self.replica.members(), log);
        if basis.is_some() {
            // What the log has of earlier terms is older than this.
            self.time.heard_in = self.replica.term();
        }
        if basis.is_some() {
            self.answer_untimed(now, outputs);
        }
        let by = match basis {
            None | Some(Basis::Known) => return,
            Some(Basis::Log) => None,
            Some(Basis::WallClocks) => Some(Duration::from_millis(self.time(now).saturating_sub(log))),
        };
        // A store without entries has nothing that could end.
        if log > 0 {
            outputs.push(Output::TimeReckoned { by });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn known(time: u64) -> Told {
        Told { is_known: true, time }
    }

    const fn reckoned(time: u64) -> Told {
        Told {
            is_known: false,
            time,
        }
    }

    /// What is decided of what nodes 1, 2 and so on say, of five, when so many milliseconds have passed.
    fn decided(told: &[Told], after_ms: u64) -> Option<(Basis, u64)> {
        let mut time = GroupTime::default();
        let members = Members::founders([1, 2, 3, 4, 5].map(NodeId));
        let now = crate::epoch();
        for (node, told) in (1..).map(NodeId).zip(told) {
            time.take(now, node, *told);
        }
        let now = now + Duration::from_millis(after_ms);
        let basis = time.decide(now, &members, 50)?;
        Some((basis, time.now(now, Stamp::default())))
    }

    #[test]
    fn what_somebody_knows_counts_more_than_what_others_reckon() {
        let told = [reckoned(9_000), known(100), known(120)];
        assert_eq!(decided(&told[..2], 1_000), None, "no majority");
        assert_eq!(decided(&told, 0), Some((Basis::Known, 120)));
    }

    #[test]
    fn wall_clocks_bridge_a_stop_as_far_as_a_majority_agrees() {
        let bridged = |time| Some((Basis::WallClocks, time));
        let alike = [5_000, 5_900, 5_300].map(reckoned);
        assert_eq!(decided(&alike, 0), None, "others may know");
        assert_eq!(decided(&alike, 500), bridged(5_000));
        let one_wrong = [5_000, 3_605_000, 5_300, 5_100, 0].map(reckoned);
        assert_eq!(decided(&one_wrong, 0), bridged(5_000));
        let all_wrong = [5_000, 3_605_000, 9_000_000].map(reckoned);
        assert_eq!(decided(&all_wrong, 500), Some((Basis::Log, 50)));
    }

    #[test]
    fn time_goes_on_from_what_is_known_and_never_behind_the_log() {
        let mut time = GroupTime::default();
        let log = Stamp { clock: 0, time: 50 };
        let start = crate::epoch();
        assert_eq!(time.now(start, log), 50);
        assert_eq!(time.instant_of(80), None);
        time.learn(start, 60);
        let later = start + Duration::from_millis(30);
        assert_eq!(time.now(later, log), 90);
        assert_eq!(time.instant_of(90), Some(later));
        assert_eq!(time.instant_of(0), Some(start));
        assert_eq!(time.now(start, Stamp { clock: 0, time: 70 }), 70);
    }

    #[test]
    fn a_leader_catches_up_with_who_is_ahead_and_what_was_long_on_its_way_turns_nothing_back() {
        let mut time = GroupTime::default();
        let start = crate::epoch();
        let (log, after) = (Stamp::default(), |seconds| start + Duration::from_secs(seconds));
        time.hear(start, Term(1), 5_000);
        assert_eq!(time.now(start, log), 5_000);
        // Said four seconds ago.
        time.hear(after(10), Term(1), 11_000);
        assert_eq!(time.now(after(10), log), 15_000 - 10);
        time.hear(after(11), Term(1), 15_989);
        assert_eq!(time.now(after(11), log), 15_989);
        time.hear(after(12), Term(1), 20_000);
        assert_eq!(time.now(after(12), log), 20_000);
        time.hear(after(13), Term(2), 18_000);
        assert_eq!(time.now(after(13), log), 18_000);
        time.hear(after(14), Term(2), 18_500);
        assert_eq!(time.now(after(14), log), 19_000 - 1);
    }

    #[test]
    fn the_first_entry_of_a_leader_is_its_first_word_if_nothing_else_was_heard() {
        let mut time = GroupTime::default();
        let start = crate::epoch();
        let (log, after) = (Stamp::default(), |seconds| start + Duration::from_secs(seconds));
        time.apply(start, Term(1), 4_000);
        assert!(!time.is_known(), "the entry may be old");
        time.hear(start, Term(1), 5_000);
        time.apply(after(1), Term(1), 5_400);
        assert_eq!(time.now(after(1), log), 6_000, "the leader has spoken");
        // The next leader was told the time late.
        time.apply(after(2), Term(2), 6_600);
        assert_eq!(time.now(after(2), log), 6_600);
        time.apply(after(3), Term(2), 7_100);
        time.hear(after(3), Term(2), 7_200);
        assert_eq!(time.now(after(3), log), 7_600 - 1);
    }
}
