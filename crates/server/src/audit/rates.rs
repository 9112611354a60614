//! How much of the audit log one address may fill: so many lines of each kind in a window, then it is only counted.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// A kind of line, and the address that it is about.
type Cause = (&'static str, Option<IpAddr>);

/// Lines of the present window.
#[derive(Debug)]
pub(super) struct Rates {
    rate_max: u64,
    written: BTreeMap<Cause, u64>,
}

/// Addresses and kinds that are counted apart. Those that come later in the window share what is left for their kind.
const CAUSES_MAX: usize = 4_096;

impl Rates {
    pub(super) fn new(rate_max: u32) -> Self {
        Self {
            rate_max: u64::from(rate_max),
            written: BTreeMap::new(),
        }
    }

    /// Whether one more line of this kind may be written; it is counted in any case.
    pub(super) fn may_write(&mut self, kind: &'static str, ip: Option<IpAddr>) -> bool {
        let is_apart = self.written.len() < CAUSES_MAX || self.written.contains_key(&(kind, ip));
        let cause = (kind, ip.filter(|_| is_apart));
        let count = self.written.entry(cause).or_default();
        *count += 1;
        *count <= self.rate_max
    }

    /// Begins the next window. Returns how many lines were left out in this one, and of what.
    pub(super) fn next_window(&mut self) -> Vec<(&'static str, Option<IpAddr>, u64)> {
        let written = std::mem::take(&mut self.written).into_iter();
        let left_out = written.filter(|(_, count)| *count > self.rate_max);
        left_out
            .map(|((kind, ip), count)| (kind, ip, count - self.rate_max))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn one_address_cannot_fill_the_log_or_hide_another_one() {
        let mut rates = Rates::new(3);
        let written = (0..100).filter(|_| rates.may_write("refused", ip(1))).count();
        assert_eq!(written, 3);
        assert!(rates.may_write("refused", ip(2)));
        assert!(rates.may_write("denied", ip(1)));
        assert_eq!(rates.next_window(), [("refused", ip(1), 97)]);
        assert!(rates.may_write("refused", ip(1)));
        assert_eq!(rates.next_window(), []);
    }

    #[test]
    fn there_are_only_so_many_addresses_to_count() {
        let mut rates = Rates::new(2);
        for number in 0..100_000_u32 {
            rates.may_write("refused", Some(IpAddr::from(number.to_be_bytes())));
        }
        assert!(rates.written.len() <= CAUSES_MAX + 1);
        let left_out = rates.next_window();
        assert_eq!(left_out, [("refused", None, 100_000 - CAUSES_MAX as u64 - 2)]);
    }
}
