//! Metrics of waiting places.

use super::super::PoolFigures;
use super::super::text::Kind::{Counter, Gauge};
use super::super::text::Page;

pub(super) fn write(pools: &[PoolFigures], page: &mut Page) {
    page.family(
        Gauge,
        "statehold_strangers",
        "Connections whose client has not proved yet who it is, by pool: each listener by its address, admin (the admin pages), peers (the port of the nodes), each method of authentication (questions under way).",
    );
    for pool in pools {
        page.sample(&[("pool", &pool.pool)], pool.taken);
    }
    page.family(
        Gauge,
        "statehold_stranger_places",
        "Waiting places for connections whose client has not proved yet who it is, by pool.",
    );
    for pool in pools {
        page.sample(&[("pool", &pool.pool)], pool.places);
    }
    page.family(
        Counter,
        "statehold_strangers_refused_total",
        "Connections without a waiting place, by pool and reason: address (its IPv4 address, IPv6 /64 or Unix user has as many as it may have), pool (all are taken, and no address has more of them), gave_way (closed in favour of a newcomer).",
    );
    for pool in pools {
        for (reason, count) in &pool.refused {
            page.sample(&[("pool", &pool.pool), ("reason", reason)], *count);
        }
    }
}
