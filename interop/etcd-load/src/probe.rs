//! Puts at fixed times, to see for how long nobody answers.

use std::cell::RefCell;
use std::fmt::Write;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tonic::client::Grpc;
use tonic::transport::Channel;

use crate::{PutRequest, call, connect, fail, separate};

#[derive(Clone, Copy)]
pub(crate) struct Probe {
    every: Duration,
    lasts: Duration,
    keys: u64,
}

pub(crate) fn parse(arguments: &[String]) -> Option<(Vec<String>, Probe)> {
    let [addresses, operation, every, seconds, keys] = arguments else {
        return None;
    };
    let probe = Probe {
        every: Duration::from_millis(every.parse().ok().filter(|&every| every > 0)?),
        lasts: Duration::from_secs(seconds.parse().ok()?),
        keys: keys.parse().ok().filter(|&keys| keys > 0)?,
    };
    (operation == "probe").then(|| (separate(addresses), probe))
}

pub(crate) async fn run(addresses: Vec<String>, probe: Probe) -> ExitCode {
    let lines = Rc::new(RefCell::new(String::new()));
    let mut channels = Vec::new();
    for address in &addresses {
        match connect(address).await {
            Ok(channel) => channels.push(channel),
            Err(error) => return fail(&error),
        }
    }
    println!("under way");
    let mut ticks = tokio::time::interval(probe.every);
    let end = tokio::time::Instant::now() + probe.lasts;
    let mut number = 0;
    while ticks.tick().await < end {
        for (place, channel) in channels.iter().enumerate() {
            let key = number % probe.keys;
            tokio::task::spawn_local(put(place, channel.clone(), key, lines.clone()));
        }
        number += 1;
    }
    print!("{}", lines.borrow());
    ExitCode::SUCCESS
}

async fn put(place: usize, channel: Channel, key: u64, lines: Rc<RefCell<String>>) {
    let sent = now();
    let request = PutRequest {
        key: format!("probe:{key}").into_bytes(),
        value: sent.to_string().into_bytes(),
    };
    if call(&mut Grpc::new(channel), "/etcdserverpb.KV/Put", request).await {
        writeln!(lines.borrow_mut(), "{place} {key} {sent} {}", now()).expect("a string takes anything");
    }
}

fn now() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos()
}
