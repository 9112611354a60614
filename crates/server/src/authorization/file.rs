//! A policy from a file: the published form of the Azure IoT Operations broker (docs/authorization.md).
//!
//! A whole `BrokerAuthorization` resource is taken, and its `authorizationPolicies`, and only the rules. What is not known is an
//! error that names it: a misspelt field would be a right that somebody does not have, or a limit that does not hold.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mqtt::authorization::{
    BrokerMethod, BrokerResource, KeyMethod, Keys, Place, Policy, PolicyError, Principals, Rule, Rules,
    StateStoreResource,
};

use super::document::{Format, MistakeAt, Node, Value};
use super::fields::{check_fields, choice, flag, kind, list, optional_list, required, text, texts};
use super::mistake::{Mistake, PolicyFileError};
use crate::text_file;

/// Far more than 10,000 rules need.
pub const FILE_BYTES_MAX: u64 = 8 << 20;

/// Reads a policy; the end of the file's name tells its format.
pub fn read(file: &Path) -> Result<Policy, PolicyFileError> {
    let ending = file.extension().map(|ending| ending.to_ascii_lowercase());
    let format = match ending.as_ref().and_then(|ending| ending.to_str()) {
        Some("yaml" | "yml") => Format::Yaml,
        Some("json") => Format::Json,
        Some("toml") => Format::Toml,
        _ => {
            return Err(PolicyFileError::Ending {
                file: file.to_owned(),
            });
        }
    };
    let text =
        text_file::read_at_most(file, FILE_BYTES_MAX).map_err(|error| PolicyFileError::Unreadable {
            file: file.to_owned(),
            error,
        })?;
    let policy = match text {
        Some(text) => parse(format, &text),
        None => Err(MistakeAt {
            line: None,
            mistake: Mistake::TooLarge,
        }),
    };
    policy.map_err(|MistakeAt { line, mistake }| PolicyFileError::Wrong {
        file: file.to_owned(),
        line,
        mistake: Box::new(mistake),
    })
}

pub(super) fn parse(format: Format, text: &str) -> Result<Policy, MistakeAt> {
    let document = format.parse(text)?;
    let rules = rules_of(&document)?;
    let read = list(rules, "rules", rule)?;
    Policy::new(Rules { rules: read }).map_err(|error| MistakeAt {
        line: match &error {
            PolicyError::Rule { place, .. } => line_of(rules, place),
            _ => None,
        },
        mistake: Mistake::Policy(error),
    })
}

/// The list of rules, in whatever it is wrapped.
fn rules_of(document: &Node) -> Result<&Node, MistakeAt> {
    if matches!(document.value, Value::List(_)) {
        return Ok(document);
    }
    let policies = if document.get("spec").is_some() {
        check_fields(
            document,
            "a resource",
            &["apiVersion", "kind", "metadata", "spec", "status"],
        )?;
        if let Some(kind) = document.get("kind") {
            choice(kind, "kind", &[("BrokerAuthorization", ())])?;
        }
        let spec = required(document, "a resource", "spec")?;
        check_fields(spec, "spec", &["authorizationPolicies", "listenerRef"])?;
        required(spec, "spec", "authorizationPolicies")?
    } else if document.get("properties").is_some() {
        check_fields(document, "a resource", &RESOURCE_MANAGER_FIELDS)?;
        let properties = required(document, "a resource", "properties")?;
        check_fields(
            properties,
            "properties",
            &["authorizationPolicies", "provisioningState", "healthState"],
        )?;
        required(properties, "properties", "authorizationPolicies")?
    } else if document.get("authorizationPolicies").is_some() {
        check_fields(document, "the file", &["authorizationPolicies"])?;
        required(document, "the file", "authorizationPolicies")?
    } else {
        document
    };
    check_fields(policies, "a policy", &["rules", "cache", "enableCache"])?;
    if let Some(cache) = policies.get("cache") {
        choice(cache, "cache", &[("Enabled", ()), ("Disabled", ())])?;
    }
    if let Some(cache) = policies.get("enableCache") {
        flag(cache, "enableCache")?;
    }
    required(policies, "a policy", "rules")
}

/// What a resource of Azure Resource Manager has.
const RESOURCE_MANAGER_FIELDS: [&str; 9] = [
    "properties",
    "extendedLocation",
    "id",
    "name",
    "type",
    "systemData",
    "resourceGroup",
    "location",
    "tags",
];

fn rule(node: &Node) -> Result<Rule, MistakeAt> {
    let part = "a rule";
    check_fields(
        node,
        part,
        &["principals", "brokerResources", "stateStoreResources"],
    )?;
    Ok(Rule {
        line: node.line.and_then(|line| u32::try_from(line).ok()),
        principals: principals(required(node, part, "principals")?)?,
        broker_resources: optional_list(node, "brokerResources", broker_resource)?,
        state_store_resources: optional_list(node, "stateStoreResources", state_store_resource)?,
    })
}

fn principals(node: &Node) -> Result<Principals, MistakeAt> {
    if node.value == Value::Null {
        return Ok(Principals::default());
    }
    check_fields(
        node,
        "principals",
        &["usernames", "clientIds", "attributes", "clientids"],
    )?;
    // The last is how early versions of the form wrote it.
    let mut client_ids = texts(node, "clientIds")?;
    client_ids.extend(texts(node, "clientids")?);
    Ok(Principals {
        usernames: texts(node, "usernames")?,
        client_ids,
        attributes: optional_list(node, "attributes", attributes)?,
    })
}

fn attributes(node: &Node) -> Result<BTreeMap<String, String>, MistakeAt> {
    let Value::Table(entries) = &node.value else {
        return Err(kind(
            node,
            "attributes",
            "a list of tables, each attribute with its value",
        ));
    };
    let mut all = BTreeMap::new();
    for entry in entries {
        let value = text(&entry.node, &entry.field)?;
        if all.insert(entry.field.clone(), value).is_some() {
            return Err(entry.node.mistake(Mistake::Twice {
                field: entry.field.clone(),
            }));
        }
    }
    Ok(all)
}

fn broker_resource(node: &Node) -> Result<BrokerResource, MistakeAt> {
    let part = "one of brokerResources";
    check_fields(node, part, &["method", "clientIds", "topics", "highPriority"])?;
    let methods = [
        ("Connect", BrokerMethod::Connect),
        ("Publish", BrokerMethod::Publish),
        ("Subscribe", BrokerMethod::Subscribe),
    ];
    let said = node.get("highPriority").filter(|node| node.value != Value::Null);
    Ok(BrokerResource {
        high_priority: said.map(|node| flag(node, "highPriority")).transpose()?,
        method: choice(required(node, part, "method")?, "method", &methods)?,
        client_ids: texts(node, "clientIds")?,
        topics: texts(node, "topics")?,
    })
}

fn state_store_resource(node: &Node) -> Result<StateStoreResource, MistakeAt> {
    let part = "one of stateStoreResources";
    check_fields(node, part, &["method", "keyType", "keys"])?;
    let methods = [
        ("Read", KeyMethod::Read),
        ("Write", KeyMethod::Write),
        ("ReadWrite", KeyMethod::ReadWrite),
        ("Audit", KeyMethod::Audit),
    ];
    required(node, part, "keys")?;
    let key_types = [
        ("Pattern", KeyType::Pattern),
        ("String", KeyType::Text),
        ("Binary", KeyType::Binary),
    ];
    let key_type = node.get("keyType").filter(|node| node.value != Value::Null);
    let key_type = key_type.map_or(Ok(KeyType::Pattern), |node| choice(node, "keyType", &key_types))?;
    Ok(StateStoreResource {
        method: choice(required(node, part, "method")?, "method", &methods)?,
        keys: match key_type {
            KeyType::Pattern => Keys::Pattern(texts(node, "keys")?),
            KeyType::Text => Keys::Text(texts(node, "keys")?),
            KeyType::Binary => Keys::Binary(optional_list(node, "keys", binary)?),
        },
    })
}

/// How the keys of a rule are written.
#[derive(Debug, Clone, Copy)]
enum KeyType {
    Pattern,
    Text,
    Binary,
}

fn binary(node: &Node) -> Result<Vec<u8>, MistakeAt> {
    let text = text(node, "keys")?;
    STANDARD
        .decode(&text)
        .map_err(|_| node.mistake(Mistake::Base64(text)))
}

/// Where something of the rules stands.
fn line_of(rules: &Node, place: &Place) -> Option<usize> {
    let rule = rules.item(place.rule.position())?;
    let mut at = rule;
    for (name, number) in [place.part, place.field] {
        let Some(next) = at.get(name) else { break };
        at = number.and_then(|number| next.item(number)).unwrap_or(next);
    }
    at.line.or(rule.line)
}

#[cfg(test)]
mod tests;
