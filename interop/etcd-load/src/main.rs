//! `etcd-load ADDRESSES put|get CONNECTIONS REQUESTS KEYS VALUE_BYTES`: one request at a time on each of
//! CONNECTIONS gRPC connections, REQUESTS in all, over KEYS keys; `get` is linearizable, which is etcd's
//! default. Connections take the ADDRESSES, separated by commas, in turns. Prints one line of JSON: the rate per second and percentiles in
//! microseconds.
//!
//! `etcd-load ADDRESSES probe EVERY_MS SECONDS KEYS`: a put on each address every so often, whether those before were answered or not. Prints a
//! line for each that was: place of the address, number of the key, when it was sent and when answered, in nanoseconds since the Unix epoch.
//!
//! The two messages are written by hand after etcd's published `rpc.proto`, fields that stay at their
//! default left out, so that nothing needs a protobuf compiler.
#![forbid(unsafe_code)]

mod probe;

use std::cell::{Cell, RefCell};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use hdrhistogram::Histogram;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// `etcdserverpb.PutRequest`
#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `etcdserverpb.RangeRequest`
#[derive(Clone, PartialEq, prost::Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

/// Of the answers only that they came; a message skips the fields it does not know.
#[derive(Clone, PartialEq, prost::Message)]
struct Answer {}

#[derive(Clone, Copy)]
struct Load {
    is_put: bool,
    connections: u64,
    requests: u64,
    keys: u64,
    value_bytes: usize,
}

/// What all connections count together.
struct Count {
    left: Cell<u64>,
    failed: Cell<u64>,
    micros: RefCell<Histogram<u64>>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let tasks = tokio::task::LocalSet::new();
    if let Some((addresses, probe)) = probe::parse(&arguments) {
        return tasks.run_until(probe::run(addresses, probe)).await;
    }
    let Some((addresses, load)) = parse(&arguments) else {
        eprintln!(
            "usage: etcd-load ADDRESSES put|get CONNECTIONS REQUESTS KEYS VALUE_BYTES | probe EVERY_MS SECONDS KEYS"
        );
        return ExitCode::from(2);
    };
    tasks.run_until(run(addresses, load)).await
}

fn parse(arguments: &[String]) -> Option<(Vec<String>, Load)> {
    let [addresses, operation, connections, requests, keys, value_bytes] = arguments else {
        return None;
    };
    let load = Load {
        is_put: match operation.as_str() {
            "put" => true,
            "get" => false,
            _ => return None,
        },
        connections: connections.parse().ok()?,
        requests: requests.parse().ok()?,
        keys: keys.parse().ok().filter(|&keys| keys > 0)?,
        value_bytes: value_bytes.parse().ok()?,
    };
    Some((separate(addresses), load))
}

fn separate(addresses: &str) -> Vec<String> {
    addresses.split(',').map(str::to_owned).collect()
}

async fn run(addresses: Vec<String>, load: Load) -> ExitCode {
    let mut channels = Vec::new();
    for (_, address) in (0..load.connections).zip(addresses.iter().cycle()) {
        match connect(address).await {
            Ok(channel) => channels.push(channel),
            Err(error) => return fail(&error),
        }
    }
    let count = Rc::new(Count {
        left: Cell::new(load.requests),
        failed: Cell::new(0),
        // One microsecond to one minute, three digits.
        micros: RefCell::new(Histogram::new_with_bounds(1, 60_000_000, 3).expect("valid bounds")),
    });
    let started = Instant::now();
    let tasks: Vec<_> = channels
        .into_iter()
        .zip(0..)
        .map(|(channel, number)| tokio::task::spawn_local(connection(channel, number, load, count.clone())))
        .collect();
    for task in tasks {
        task.await.expect("a task does not panic");
    }
    report(load, &count, started.elapsed().as_secs_f64());
    if count.failed.get() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn connect(address: &str) -> Result<Channel, tonic::transport::Error> {
    Endpoint::from_shared(format!("http://{address}"))?
        .connect()
        .await
}

fn fail(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("etcd-load: {error}");
    ExitCode::FAILURE
}

async fn connection(channel: Channel, number: u64, load: Load, count: Rc<Count>) {
    let mut client = Grpc::new(channel);
    let value = vec![b'v'; load.value_bytes];
    // A step coprime with nearly every number of keys spreads the connections over them.
    let mut next = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    while count.left.get() > 0 {
        count.left.set(count.left.get() - 1);
        next = next.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let key = format!("key:{:012}", next % load.keys).into_bytes();
        let sent = Instant::now();
        let answered = if load.is_put {
            call(
                &mut client,
                "/etcdserverpb.KV/Put",
                PutRequest {
                    key,
                    value: value.clone(),
                },
            )
            .await
        } else {
            call(&mut client, "/etcdserverpb.KV/Range", RangeRequest { key }).await
        };
        if answered {
            let micros = u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX);
            count.micros.borrow_mut().saturating_record(micros);
        } else {
            count.failed.set(count.failed.get() + 1);
        }
    }
}

async fn call<R>(client: &mut Grpc<Channel>, method: &'static str, request: R) -> bool
where
    R: prost::Message + Send + Sync + 'static,
{
    if client.ready().await.is_err() {
        return false;
    }
    let codec = ProstCodec::<R, Answer>::default();
    client
        .unary(
            tonic::Request::new(request),
            PathAndQuery::from_static(method),
            codec,
        )
        .await
        .is_ok()
}

fn report(load: Load, count: &Count, seconds: f64) {
    let micros = count.micros.borrow();
    println!(
        "{{\"operation\":\"{}\",\"connections\":{},\"requests\":{},\"errors\":{},\"per_second\":{:.0},\
         \"p50_us\":{},\"p99_us\":{},\"p999_us\":{}}}",
        if load.is_put { "put" } else { "get" },
        load.connections,
        micros.len(),
        count.failed.get(),
        micros.len() as f64 / seconds,
        micros.value_at_quantile(0.5),
        micros.value_at_quantile(0.99),
        micros.value_at_quantile(0.999),
    );
}
