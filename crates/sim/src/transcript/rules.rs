//! Words to rules of a policy.

use std::sync::Arc;

use mqtt::authorization::{
    BrokerMethod, BrokerResource, KeyMethod, Keys, Policy, Principals, Rule, Rules, StateStoreResource,
};
use mqtt::policies::{NamedPolicy, Policies};
use protocol::Text;

/// The one policy of all listeners.
pub(super) fn policies(rules: &[&str]) -> Result<Policies, String> {
    let rules = rules.iter().map(|line| rule(line)).collect::<Result<_, _>>()?;
    let policy = Policy::new(Rules { rules }).map_err(|error| error.to_string())?;
    Ok(Policies::new(vec![NamedPolicy {
        name: Text::from_static("plant"),
        policy: Arc::new(policy),
    }]))
}

/// `[user=x,y] [client=x,y] [attribute=name:value] connect publish=topic,topic urgent=topic subscribe=topic,topic read=pattern write=pattern audit=pattern`
pub(super) fn rule(line: &str) -> Result<Rule, String> {
    let mut principals = Principals::default();
    let (mut broker_resources, mut state_store_resources) = (Vec::new(), Vec::new());
    for word in line.split_whitespace() {
        let (what, texts) = word.split_once('=').unwrap_or((word, ""));
        let texts = || texts.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut allow = |method, topics| {
            broker_resources.push(BrokerResource {
                method,
                client_ids: Vec::new(),
                topics,
                high_priority: None,
            });
        };
        let mut allow_keys = |method| {
            state_store_resources.push(StateStoreResource {
                method,
                keys: Keys::Pattern(texts()),
            });
        };
        match what {
            "user" => principals.usernames = texts(),
            "client" => principals.client_ids = texts(),
            "attribute" => {
                let pairs = texts();
                let pairs = pairs.iter().filter_map(|pair| pair.split_once(':'));
                let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
                principals.attributes.push(pairs.collect());
            }
            "connect" => allow(BrokerMethod::Connect, Vec::new()),
            "publish" => allow(BrokerMethod::Publish, texts()),
            "subscribe" => allow(BrokerMethod::Subscribe, texts()),
            "urgent" => broker_resources.push(BrokerResource {
                method: BrokerMethod::Publish,
                client_ids: Vec::new(),
                topics: texts(),
                high_priority: Some(true),
            }),
            "read" => allow_keys(KeyMethod::Read),
            "write" => allow_keys(KeyMethod::Write),
            "audit" => allow_keys(KeyMethod::Audit),
            other => return Err(format!("{other} is nothing that is allowed")),
        }
    }
    Ok(Rule {
        line: None,
        principals,
        broker_resources,
        state_store_resources,
    })
}
