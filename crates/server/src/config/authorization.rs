//! `[authorization.NAME]`: policies by name, for listeners.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mqtt::policies::PolicyId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Listener;
use super::file::Problem;

/// A policy: what clients may do, at listeners whose `authorization` is its name. Names are letters, digits, `-` and `_`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Authorization {
    /// File with the rules: `.yaml`, `.json` or `.toml`; `statehold policy check` says what is wrong with it. It is read again on
    /// SIGHUP and a few seconds after it has changed: what is no longer allowed ends. A file that cannot be used changes nothing.
    pub file: PathBuf,
}

/// All policies, by name.
pub(crate) type Policies = BTreeMap<String, Authorization>;

/// The policy of a listener.
pub(crate) fn policy_id(policies: &Policies, listener: &Listener) -> Option<PolicyId> {
    let name = listener.authorization.as_ref()?;
    let place = policies.keys().position(|known| known == name)?;
    Some(PolicyId(
        u16::try_from(place).expect("there are at most POLICIES_MOST policies"),
    ))
}

/// What the types do not say.
pub(super) fn violations(policies: &Policies, listeners: &[Listener], problems: &mut Vec<Problem>) {
    if policies.len() > POLICIES_MOST {
        let why = format!(
            "there are {} policies, at most {POLICIES_MOST} are taken",
            policies.len()
        );
        problems.push(Problem::new("authorization", why));
    }
    for (name, policy) in policies {
        let setting = format!("authorization.{name}");
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > NAME_LONGEST || !name.chars().all(is_of_name) {
            let why = format!("a name is 1 to {NAME_LONGEST} letters, digits, `-` and `_`");
            problems.push(Problem::new(&setting, why));
        }
        if policy.file.as_os_str().is_empty() {
            problems.push(Problem::new(
                &format!("{setting}.file"),
                "a file is needed".to_owned(),
            ));
        }
    }
    for (index, listener) in listeners.iter().enumerate() {
        if let Some(name) = &listener.authorization
            && !policies.contains_key(name)
        {
            let why = format!("there is no `[authorization.{name}]`");
            problems.push(Problem::new(&format!("listeners[{index}].authorization"), why));
        }
    }
}

/// Far more than there are kinds of clients.
const POLICIES_MOST: usize = 256;

/// Sessions remember the name.
const NAME_LONGEST: usize = 64;
