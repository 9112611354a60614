//! A client that asks anything of a few keys, which all of its kind share.

use std::rc::Rc;

use bytes::Bytes;
use client::Hlc;
use client::protocol::Text;
use client::protocol::state_store::{Condition, Reply, Request};

use super::Shared;
use super::caller::{Caller, one_of};
use crate::bench::clock;
use crate::bench::random::Random;

/// Keys of each kind in one round.
pub(super) const KEYS: u64 = 3;

/// What a key is used for: by any writer, with an expiry, with fencing tokens.
pub(super) const KINDS: [&str; 3] = ["key", "lease", "fenced"];

/// How long a key with an expiry lives at most.
const LIVES_MAX_MS: u64 = 3_000;

/// How many fencing tokens there are, all older than every clock.
const TOKENS: u64 = 5;

/// How often the last reading of a key is tried, each time for as long as the others' patience.
const READS_MAX: u32 = 6;

pub(super) async fn run(number: u32, mut random: Random, shared: Rc<Shared>) -> anyhow::Result<()> {
    let caller = Caller::new("asker", number, &shared)?;
    let mut caller = if number < shared.impatient {
        caller.impatient()
    } else {
        caller
    };
    // Not all at once.
    tokio::time::sleep(shared.pause.mul_f64(f64::from(number % 16) / 16.0)).await;
    let mut asked = 0;
    while !shared.is_over.get() {
        asked += 1;
        let (request, token) = choose(&mut random, &caller, asked);
        let ended = caller.ask(&request, token.as_ref()).await?;
        let next = (ended.invoked + shared.pause).max(ended.now);
        tokio::time::sleep_until(next.into()).await;
    }
    Ok(())
}

/// Reads every key once more, so that nothing that was acknowledged can be missing unseen.
pub(super) async fn read_all(shared: &Rc<Shared>) -> anyhow::Result<()> {
    let keys: Vec<String> = shared.state.borrow().keys.iter().cloned().collect();
    let mut readers = Vec::new();
    for number in 0..u32::try_from(shared.nodes.len())? {
        readers.push(Caller::new("reader", number, shared)?);
    }
    for (place, key) in keys.into_iter().enumerate() {
        let reader = place % readers.len();
        let key = Bytes::from(key);
        let mut is_read = false;
        for _ in 0..READS_MAX {
            let ended = readers[reader]
                .ask(&Request::Get { key: key.clone() }, None)
                .await?;
            if ended.answer.is_some() {
                is_read = true;
                break;
            }
        }
        if !is_read {
            shared.state.borrow_mut().tally.errors += 1;
            break;
        }
    }
    Ok(())
}

fn choose(random: &mut Random, caller: &Caller, asked: u64) -> (Request, Option<Hlc>) {
    let kind = one_of(random, &KINDS);
    let shared = &caller.shared;
    let key = shared.key(shared.round(clock::now()), kind, random.below(KEYS));
    let key = Bytes::from(key);
    // One value is only set once, the other is that of a holder.
    let own = Bytes::from(format!("{}-{asked}", caller.name()));
    let holder = Bytes::copy_from_slice(caller.name().as_bytes());
    let expires_in = (kind == "lease").then(|| 1 + random.below(LIVES_MAX_MS));
    let token = (kind == "fenced")
        .then(|| random.below(TOKENS))
        .filter(|token| *token > 0);
    let token = token.map(|wall| Hlc {
        wall,
        counter: 0,
        node: Text::from_static("lock"),
    });
    let set = |value, condition| Request::Set {
        key: key.clone(),
        value,
        condition,
        expires_in,
    };
    let request = match random.below(10) {
        0..2 => set(own, Condition::None),
        2 => set(holder, Condition::None),
        3 => set(own, Condition::NotExists),
        4 => set(holder, Condition::NotExistsOrEqual),
        5 if random.below(2) == 0 => Request::Del { key },
        5 => Request::VDel { key, value: holder },
        _ => Request::Get { key },
    };
    let token = token.filter(|_| !matches!(request, Request::Get { .. }));
    (request, token)
}

/// Whether a request was executed, as far as is known.
pub(super) fn is_stored(reply: &Reply) -> bool {
    *reply == Reply::Ok
}
