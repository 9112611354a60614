//! The self-test: a client inside the server that goes the way of every other client, and says whether it works.
//!
//! Its connection is one end of a pair of sockets, the other is served like those that a listener has accepted: with its own
//! task, real packets and a policy, which allows it nothing but what is its own. There is one round at a time; what a round found
//! is in `/metrics`, at `/api/self-test`, and in the log when it is another thing than before.
//!
//! It is not a check that the server is reachable: it goes through no network. `statehold self-test` does the same from outside.

mod probe_client;
mod results;
mod round;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::NodeId;
use mqtt::authorization::{
    BrokerMethod, BrokerResource, KeyMethod, Keys, Policy, Principals, Rule, Rules, StateStoreResource,
};
use mqtt::policies::{NamedPolicy, PolicyId};
use protocol::Text;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval_at};

pub use self::results::{Results, Round, Step, StepResult, Verdict};
use self::round::Rounds;
use crate::client_address::ClientAddress;
use crate::clock;
use crate::config::{ListenAddress, SelfTest};
use crate::driver::Driver;
use crate::listener::Origin;
use crate::socket::{self, Socket};
use crate::stream::Stream;

/// What the self-test of one node needs.
#[derive(Debug)]
pub(crate) struct SelfTester {
    driver: Rc<Driver>,
    origin: Arc<Origin>,
    rounds: Rounds,
    was_ok: Option<bool>,
}

/// Starts rounds, if the settings want any. `policy`: of [`policy`]; `seed`: not to be guessed by clients.
pub(crate) fn start(
    settings: &SelfTest,
    driver: &Rc<Driver>,
    policy: PolicyId,
    seed: u64,
) -> Option<JoinHandle<()>> {
    let interval = settings.interval?;
    let listener = LISTENER.parse::<ListenAddress>().ok()?;
    let tester = SelfTester {
        driver: Rc::clone(driver),
        origin: Arc::new(Origin {
            listener,
            policy: None,
            authorization: Some(policy),
        }),
        rounds: Rounds::new(driver.node_id(), settings.timeout, seed),
        was_ok: None,
    };
    Some(tokio::task::spawn_local(tester.run(interval)))
}

/// Where its connections are said to come from.
const LISTENER: &str = "unix:self-test";

/// What the client of the self-test may do: be connected, and use what is its own.
pub(crate) fn policy() -> NamedPolicy {
    let broker_resource = |method, topics: &[&str]| BrokerResource {
        method,
        client_ids: Vec::new(),
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        high_priority: None,
    };
    let topics = &["$statehold/self-test/#"];
    let rule = Rule {
        line: None,
        principals: Principals {
            client_ids: vec!["*".to_owned()],
            ..Principals::default()
        },
        broker_resources: vec![
            broker_resource(BrokerMethod::Connect, &[]),
            broker_resource(BrokerMethod::Publish, topics),
            broker_resource(BrokerMethod::Subscribe, topics),
        ],
        state_store_resources: vec![StateStoreResource {
            method: KeyMethod::ReadWrite,
            keys: Keys::Pattern(vec!["$statehold/self-test/*".to_owned()]),
        }],
    };
    let policy = Policy::new(Rules { rules: vec![rule] }).expect("the rule has no mistake");
    NamedPolicy {
        // No policy of the settings can be called so.
        name: Text::from_static("$self-test"),
        policy: Arc::new(policy),
    }
}

/// What it calls itself.
fn client_id(node: NodeId) -> Text {
    Text::new(format!("$self-test-{node}")).expect("it is short")
}

/// What the topics of its messages begin with: with `$`, so that nobody gets them who has not asked for just these.
fn topic_prefix(node: NodeId) -> String {
    format!("$statehold/self-test/{node}/")
}

/// What its keys begin with.
fn key_prefix(node: NodeId) -> String {
    format!("$statehold/self-test/{node}/")
}

impl SelfTester {
    async fn run(mut self, interval: Duration) {
        let first = (clock::instant() + interval).into();
        let mut due = interval_at(first, interval);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            due.tick().await;
            let began = self.driver.wall();
            let steps = match self.connection() {
                Ok(stream) => self.rounds.run(stream, began).await,
                Err(why) => vec![StepResult {
                    step: Step::Connect,
                    verdict: Verdict::Failed,
                    took: Duration::ZERO,
                    why: Some(why),
                }],
            };
            let round = Round { began, steps };
            self.tell(&round);
            self.driver.observed.borrow_mut().self_test.record(round);
        }
    }

    /// A connection to the server itself.
    fn connection(&self) -> Result<UnixStream, String> {
        let (near, far) = UnixStream::pair().map_err(|error| error.to_string())?;
        let reserved = self.driver.reserve();
        let id = reserved.map_err(|limit| format!("the limit of connections is reached: {limit}"))?;
        let peer = ClientAddress::Unix(far.peer_cred().ok());
        let origin = Arc::clone(&self.origin);
        let socket = Rc::new(Socket::new(id, peer, origin, Stream::Unix(far)));
        self.driver.opened(&socket, Duration::ZERO);
        tokio::task::spawn_local(socket::run(Rc::clone(&self.driver), socket));
        Ok(near)
    }

    /// The log has what has changed, not every round.
    fn tell(&mut self, round: &Round) {
        let is_ok = round.is_ok();
        let was_ok = self.was_ok.replace(is_ok);
        match round.first_trouble() {
            Some(trouble) if was_ok != Some(false) => tracing::warn!(
                step = trouble.step.name(),
                result = trouble.verdict.name(),
                why = trouble.why.as_deref(),
                took_ms = u64::try_from(trouble.took.as_millis()).unwrap_or(u64::MAX),
                "the self-test failed: clients have the same trouble"
            ),
            None if was_ok == Some(false) => tracing::info!("the self-test finds everything well again"),
            None if was_ok.is_none() => tracing::info!("the self-test finds everything well"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
