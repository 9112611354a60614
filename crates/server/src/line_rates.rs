//! How much of a log one client may fill: so many lines of each kind in a window, then they are only counted.
//!
//! The log and the audit log have one each. A limit belongs to a principal, or to the address of who has none: there is no limit that
//! all share, so no flood hides a client that is well. Principals have places of their own, which no stranger takes. When all places
//! are taken, those who come later in the window share one of [`SHARED`] limits, by a hash that nobody can foresee.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use protocol::Escaped;

/// How often what was left out is counted and said.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// Whom a line is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Who<'a> {
    /// Somebody who has proved it.
    Principal(Cow<'a, str>),
    /// Everybody at an address; of version 6, in a network of 64 bits.
    Address(IpAddr),
    /// A client without a principal whose address is not known, or a user of this machine.
    Named(Cow<'a, str>),
}

/// Lines that were left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) kind: &'static str,
    /// `None`: several, who came when there were no places left.
    pub(crate) who: Option<LeftOutOf>,
    pub(crate) count: u64,
}

/// Of whom lines were left out, as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeftOutOf {
    Principal(String),
    Address(String),
    Named(String),
}

/// Lines of the present window.
#[derive(Debug)]
pub(crate) struct LineRates {
    rate_max: u64,
    seed: RandomState,
    principals: Places,
    strangers: Places,
}

/// Lines by kind, and by the hash of whom they are about: names may be long.
#[derive(Debug, Default)]
struct Places {
    own: BTreeMap<(&'static str, u64), Written>,
    shared: BTreeMap<(&'static str, u64), u64>,
}

#[derive(Debug, Default)]
struct Written {
    count: u64,
    /// Known when lines are left out.
    who: Option<LeftOutOf>,
}

/// Kinds and principals, or kinds and addresses, that are counted apart: with a name of 256 bytes each, some MiB.
const PLACES_MAX: usize = 8_192;

/// Limits for those who come when all places are taken.
pub(crate) const SHARED: u64 = 1_024;

impl LineRates {
    pub(crate) fn new(rate_max: u32) -> Self {
        Self {
            rate_max: u64::from(rate_max),
            seed: RandomState::new(),
            principals: Places::default(),
            strangers: Places::default(),
        }
    }

    /// Whether one more line of this kind may be written; it is counted in any case.
    pub(crate) fn may_write(&mut self, kind: &'static str, who: &Who<'_>) -> bool {
        let who = who.canonical();
        let hash = self.seed.hash_one(&who);
        let places = match who {
            Who::Principal(_) => &mut self.principals,
            Who::Address(_) | Who::Named(_) => &mut self.strangers,
        };
        let is_full = places.own.len() >= PLACES_MAX;
        if is_full && !places.own.contains_key(&(kind, hash)) {
            let count = places.shared.entry((kind, hash % SHARED)).or_default();
            *count += 1;
            return *count <= self.rate_max;
        }
        let written = places.own.entry((kind, hash)).or_default();
        written.count += 1;
        let may_write = written.count <= self.rate_max;
        if !may_write && written.who.is_none() {
            written.who = Some(LeftOutOf::from(&who));
        }
        may_write
    }

    /// Begins the next window. Returns how many lines were left out in this one, and of whom.
    pub(crate) fn next_window(&mut self) -> Vec<LeftOut> {
        let rate_max = self.rate_max;
        let mut left_out = Vec::new();
        for places in [&mut self.principals, &mut self.strangers] {
            let Places { own, shared } = std::mem::take(places);
            left_out.extend(own.into_iter().filter_map(|((kind, _), written)| {
                let who = Some(written.who?);
                let count = written.count - rate_max;
                Some(LeftOut { kind, who, count })
            }));
            let mut of_kind = BTreeMap::<_, u64>::new();
            for ((kind, _), count) in shared {
                *of_kind.entry(kind).or_default() += count.saturating_sub(rate_max);
            }
            let of_kind = of_kind.into_iter().filter(|(_, count)| *count > 0);
            left_out.extend(of_kind.map(|(kind, count)| LeftOut {
                kind,
                who: None,
                count,
            }));
        }
        left_out
    }
}

impl Who<'_> {
    /// Whoever has an address of version 6 has all that begin with the same 64 bits.
    fn canonical(&self) -> Who<'_> {
        match self {
            Who::Principal(name) => Who::Principal(Cow::Borrowed(name)),
            Who::Named(name) => Who::Named(Cow::Borrowed(name)),
            Who::Address(address) => Who::Address(match address.to_canonical() {
                IpAddr::V4(address) => address.into(),
                IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
            }),
        }
    }
}

impl From<&Who<'_>> for LeftOutOf {
    fn from(who: &Who<'_>) -> Self {
        match who {
            Who::Principal(name) => Self::Principal(Escaped::new(&**name).to_string()),
            Who::Named(name) => Self::Named(Escaped::new(&**name).to_string()),
            Who::Address(IpAddr::V4(address)) => Self::Address(address.to_string()),
            Who::Address(IpAddr::V6(network)) => Self::Address(format!("{network}/64")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Who<'static> {
        Who::Address(address.parse().expect("an address"))
    }

    fn principal(name: &str) -> Who<'_> {
        Who::Principal(Cow::Borrowed(name))
    }

    fn left_out(kind: &'static str, who: LeftOutOf, count: u64) -> LeftOut {
        let who = Some(who);
        LeftOut { kind, who, count }
    }

    #[test]
    fn one_address_cannot_fill_the_log_or_hide_another_one() {
        let mut rates = LineRates::new(3);
        let one = at("10.0.0.1");
        let written = (0..100).filter(|_| rates.may_write("refused", &one)).count();
        assert_eq!(written, 3);
        assert!(rates.may_write("refused", &at("10.0.0.2")));
        assert!(rates.may_write("denied", &one));
        let expected = left_out("refused", LeftOutOf::Address("10.0.0.1".to_owned()), 97);
        assert_eq!(rates.next_window(), [expected]);
        assert!(rates.may_write("refused", &one));
        assert_eq!(rates.next_window(), []);
    }

    #[test]
    fn a_network_of_version_6_is_one_address() {
        let mut rates = LineRates::new(1);
        assert!(rates.may_write("refused", &at("2001:db8::1")));
        assert!(!rates.may_write("refused", &at("2001:db8::ffff:1")));
        assert!(rates.may_write("refused", &at("2001:db8:0:1::1")));
        assert!(rates.may_write("refused", &at("::ffff:192.0.2.1")));
        assert!(!rates.may_write("refused", &at("192.0.2.1")));
        let network = LeftOutOf::Address("2001:db8::/64".to_owned());
        assert!(rates.next_window().contains(&left_out("refused", network, 1)));
    }

    /// A principal that is well is found in a log that strangers flood from a million addresses, and other principals under theirs.
    #[test]
    fn no_flood_hides_a_principal_that_is_well() {
        let mut rates = LineRates::new(2);
        for number in 0..1_000_000_u32 {
            rates.may_write("connected", &Who::Address(IpAddr::from(number.to_be_bytes())));
        }
        for number in 0..PLACES_MAX - 1 {
            rates.may_write("connected", &principal(&number.to_string()));
        }
        (0..1_000).for_each(|_| {
            rates.may_write("connected", &principal("1"));
        });
        assert!(rates.may_write("connected", &principal("pump-7")));
    }

    /// Also when there are more principals than places, most that are well are found.
    #[test]
    fn places_are_bounded_and_who_finds_none_shares_one_of_many_limits() {
        let mut rates = LineRates::new(2);
        for number in 0..PLACES_MAX {
            rates.may_write(
                "refused",
                &Who::Address(IpAddr::from((number as u32).to_be_bytes())),
            );
        }
        // One more floods: a newcomer shares its limit with one of 1,024 others only.
        (0..10_000).for_each(|_| {
            rates.may_write("refused", &at("10.0.0.1"));
        });
        let newcomers = (0..100).map(|last| Who::Address(IpAddr::from([10, 1, 0, last])));
        let found = newcomers.filter(|who| rates.may_write("refused", who)).count();
        assert!(found > 80, "{found} of 100");
        for number in 0..1_000_000_u32 {
            rates.may_write("refused", &Who::Address(IpAddr::from(number.to_be_bytes())));
        }
        assert_eq!(rates.strangers.own.len(), PLACES_MAX);
        assert!(rates.strangers.shared.len() as u64 <= SHARED);
        let total: u64 = rates.next_window().iter().map(|left_out| left_out.count).sum();
        let written = (PLACES_MAX as u64 + SHARED) * 2;
        assert!(total + written >= 1_010_000, "{total} left out");
    }

    #[test]
    fn long_names_take_no_room() {
        let mut rates = LineRates::new(1);
        let name = "x".repeat(65_535);
        (0..2).for_each(|_| {
            rates.may_write("connected", &principal(&name));
        });
        let Some(LeftOutOf::Principal(shown)) = rates.next_window()[0].who.clone() else {
            panic!("lines of a principal were left out");
        };
        assert!(shown.len() < 300, "{} bytes", shown.len());
    }
}
