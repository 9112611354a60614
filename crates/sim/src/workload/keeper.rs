//! A client of the state store: writes numbered values, reads them, and makes keys that only it makes.

use std::collections::BTreeMap;

use bytes::Bytes;
use cluster::random::Random;
use protocol::packet::Publish;
use protocol::{Hlc, Packet};

use super::client::Client;
use super::oracle::{KeyVersion, Oracle};
use crate::machine::Machine;
use crate::transcript;

/// A client of the state store, and what it asked.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) client: Client,
    next_request: u64,
    asked: BTreeMap<Bytes, Asked>,
}

#[derive(Debug)]
enum Asked {
    Set {
        key: String,
        value: String,
    },
    /// A key that was never made before: must succeed, also if the request is sent again.
    Make {
        key: String,
    },
    /// The highest version that anybody knew of the key when this was asked.
    Get {
        key: String,
        known: KeyVersion,
    },
}

/// Requests without an answer that a keeper has at most.
const ASKED_MAX: usize = 20;

/// Keys that all keepers write and read.
const KEYS: usize = 4;

impl Keeper {
    pub(super) fn new(name: String) -> Self {
        Self {
            client: Client::keeper(name),
            next_request: 0,
            asked: BTreeMap::new(),
        }
    }

    /// Sends a random request.
    pub(super) fn ask(&mut self, machine: &mut Machine, random: &mut Random, oracle: &mut Oracle) {
        if !self.client.is_connected() || self.asked.len() >= ASKED_MAX {
            return;
        }
        self.next_request += 1;
        let key = format!("key{}", random.between(0, KEYS));
        let own = format!("{}-{}", self.client.name, self.next_request);
        let (asked, arguments) = match random.between(0, 10) {
            0..5 => {
                oracle.sent(&key, &own);
                (
                    Asked::Set {
                        key: key.clone(),
                        value: own.clone(),
                    },
                    vec!["SET", key.as_str(), own.as_str()],
                )
            }
            5..7 => (
                Asked::Make { key: own.clone() },
                vec!["SET", own.as_str(), "made", "NX"],
            ),
            _ => {
                let known = oracle.known(&key);
                (
                    Asked::Get {
                        key: key.clone(),
                        known,
                    },
                    vec!["GET", key.as_str()],
                )
            }
        };
        let Packet::Publish(mut publish) =
            transcript::request(&self.client.name, machine.now(), 1, &arguments)
        else {
            return;
        };
        let correlation = Bytes::copy_from_slice(&self.next_request.to_be_bytes());
        publish.properties.correlation_data = Some(correlation.clone());
        self.asked.insert(correlation, asked);
        self.client.request(machine, *publish);
    }

    /// Looks at a response; one that was seen before says the same again.
    pub(super) fn answered(&mut self, response: &Publish, oracle: &mut Oracle) -> Result<(), String> {
        let correlation = response.properties.correlation_data.clone().unwrap_or_default();
        let Some(asked) = self.asked.remove(&correlation) else {
            return Ok(());
        };
        let mut properties = response.properties.user_properties.iter();
        let version = properties
            .find(|(name, _)| *name == "__ts")
            .map(|(_, text)| version(text))
            .transpose()?;
        if response.payload.starts_with(QUOTA) {
            return Ok(());
        }
        match asked {
            Asked::Set { key, value } => match (response.payload.as_ref(), version) {
                (b"+OK\r\n", Some(version)) => oracle.written(&key, version, &value),
                (other, _) => Err(format!(
                    "SET {key} was answered {}",
                    String::from_utf8_lossy(other)
                )),
            },
            Asked::Make { key } => match response.payload.as_ref() {
                b"+OK\r\n" => Ok(()),
                other => Err(format!(
                    "SET {key} NX was executed twice: {}",
                    String::from_utf8_lossy(other)
                )),
            },
            Asked::Get { key, known } => oracle.read(&key, known, version, &response.payload),
        }
    }
}

/// How the answer to a request begins that memory has no room for.
const QUOTA: &[u8] = b"-ERR the quota has been exceeded";

fn version(text: &str) -> Result<KeyVersion, String> {
    let hlc = Hlc::parse(text).map_err(|error| format!("__ts {text}: {error}"))?;
    Ok((hlc.wall, hlc.counter))
}
