//! The answer of a policy in words.

use std::path::Path;

use client::protocol::Escaped;
use server::authorization::rules::{
    Decision, Explanation, Keys, Request, ResourceExplanation, Rule, RuleExplanation,
};
use server::authorization::{Policy, Subject};

use crate::output::Json;

/// A question and its answer.
pub(super) struct Told<'a> {
    file: &'a Path,
    policy: &'a Policy,
    request: Request<'a>,
    explanation: Explanation,
}

impl<'a> Told<'a> {
    pub(super) fn new(file: &'a Path, policy: &'a Policy, subject: &Subject, request: Request<'a>) -> Self {
        Self {
            file,
            policy,
            request,
            explanation: policy.explain(subject, request),
        }
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.explanation.decision.is_allowed()
    }

    pub(super) fn text(&self) -> String {
        let verdict = if self.is_allowed() { "allowed" } else { "denied" };
        let reason = match self.decisive() {
            Some(rule) if rule.allows() => format!("by {}", self.place(rule)),
            Some(rule) => format!(
                "no rule allows it; nearest is {}, {}",
                self.place(rule),
                self.but(rule)
            ),
            None => "no rule about this client has this method, and none allows it to others".to_owned(),
        };
        format!("{verdict}: {}\n  {reason}", self.request)
    }

    pub(super) fn json(&self) -> Json {
        let (what, asked) = match self.request {
            Request::Connect => ("connect", None),
            Request::Publish(topic) => ("publish", Some(topic.as_str().as_bytes())),
            Request::Subscribe(filter) => ("subscribe", Some(filter.as_str().as_bytes())),
            Request::ReadKey(key) => ("read", Some(key)),
            Request::WriteKey(key) => ("write", Some(key)),
            Request::AuditKey(key) => ("audit", Some(key)),
            Request::HighPriority(topic) => ("high_priority", Some(topic.as_str().as_bytes())),
        };
        let mut json = Json::new().with("request", what);
        if let Some(asked) = asked {
            json = json.with_bytes("asked", asked);
        }
        json = json.with("allowed", self.is_allowed());
        let Some(rule) = self.decisive() else {
            return json.with(
                "why",
                "no rule about this client has this method, and none allows it to others",
            );
        };
        let member = if rule.allows() { "rule" } else { "nearest_rule" };
        json = json
            .with(member, rule.rule.position() + 1)
            .with("line", self.rule(rule).line)
            .with("principals_match", rule.is_about_client);
        if let Some(resource) = resource_of(rule.resource) {
            json = json.with(self.part(), resource + 1);
        }
        if let Some(text) = self.entry(rule) {
            json = json.with("text", text);
        }
        if rule.allows() {
            json
        } else {
            json.with("why", self.but(rule))
        }
    }

    /// The rule that allows it, or the one that comes nearest.
    fn decisive(&self) -> Option<&RuleExplanation> {
        match self.explanation.decision {
            Decision::Allowed(rule) => self.explanation.rules.get(rule.position()),
            Decision::Denied => self.explanation.nearest(),
        }
    }

    fn rule(&self, explanation: &RuleExplanation) -> &Rule {
        &self.policy.rules().rules[explanation.rule.position()]
    }

    /// Where it stands, and what stands there.
    fn place(&self, rule: &RuleExplanation) -> String {
        let line = self.rule(rule).line;
        let line = line.map_or_else(String::new, |line| format!(" ({}:{line})", self.file.display()));
        let mut place = format!("rule {}{line}", rule.rule);
        if let Some(resource) = resource_of(rule.resource) {
            place += &format!(", {} {}", self.part(), resource + 1);
        }
        if let Some(text) = self.entry(rule) {
            place += &format!(": `{text}`");
        }
        place
    }

    /// Why the nearest rule does not allow it.
    fn but(&self, rule: &RuleExplanation) -> String {
        match rule.resource {
            ResourceExplanation::Allows { .. } => "but it is not about this client".to_owned(),
            ResourceExplanation::OtherClientIds { resource } => {
                let client_ids = &self.rule(rule).broker_resources[resource].client_ids;
                format!("but for other client ids: {}", listed(client_ids))
            }
            ResourceExplanation::Elsewhere { resource } => {
                let rule = self.rule(rule);
                let texts = match self.request {
                    Request::ReadKey(_) | Request::WriteKey(_) | Request::AuditKey(_) => {
                        key_texts(&rule.state_store_resources[resource].keys)
                    }
                    _ => rule.broker_resources[resource].topics.clone(),
                };
                format!("which is about this client and has {}", listed(&texts))
            }
            ResourceExplanation::OtherMethods => "which does not have this method".to_owned(),
        }
    }

    fn part(&self) -> &'static str {
        match self.request {
            Request::ReadKey(_) | Request::WriteKey(_) | Request::AuditKey(_) => "stateStoreResources",
            _ => "brokerResources",
        }
    }

    /// The topic or key that allows it.
    fn entry(&self, explanation: &RuleExplanation) -> Option<String> {
        let ResourceExplanation::Allows {
            resource,
            entry: Some(entry),
        } = explanation.resource
        else {
            return None;
        };
        let rule = self.rule(explanation);
        match self.request {
            Request::ReadKey(_) | Request::WriteKey(_) | Request::AuditKey(_) => {
                key_texts(&rule.state_store_resources.get(resource)?.keys)
                    .get(entry)
                    .cloned()
            }
            _ => rule.broker_resources.get(resource)?.topics.get(entry).cloned(),
        }
    }
}

fn resource_of(resource: ResourceExplanation) -> Option<usize> {
    match resource {
        ResourceExplanation::OtherMethods => None,
        ResourceExplanation::Elsewhere { resource }
        | ResourceExplanation::OtherClientIds { resource }
        | ResourceExplanation::Allows { resource, .. } => Some(resource),
    }
}

fn key_texts(keys: &Keys) -> Vec<String> {
    match keys {
        Keys::Pattern(texts) | Keys::Text(texts) => texts.clone(),
        Keys::Binary(keys) => keys.iter().map(|key| Escaped::new(key).to_string()).collect(),
    }
}

/// A few of them: who wants to see all has the file.
fn listed(texts: &[String]) -> String {
    let mut listed: Vec<_> = texts
        .iter()
        .take(LISTED_MAX)
        .map(|text| format!("`{text}`"))
        .collect();
    if texts.len() > LISTED_MAX {
        listed.push(format!("{} more", texts.len() - LISTED_MAX));
    }
    listed.join(", ")
}

/// So that a line can be read.
const LISTED_MAX: usize = 5;
