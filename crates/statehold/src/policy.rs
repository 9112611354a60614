//! `statehold policy`

mod explain;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use client::protocol::topic::SubscriptionFilter;
use client::protocol::{Text, TopicName};
use serde_json::Value;
use server::authorization::rules::{Request, Warning};
use server::authorization::{Attributes, Policy, Subject, read};

use self::explain::Told;
use crate::exit::{self, Exit, UsageError};
use crate::output::{self, Json};

/// Check a policy, or ask it what a client may do.
#[derive(Debug, Args)]
pub(crate) struct PolicyCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Check(Check),
}

/// Say what is wrong with a policy, or which of its rules decides.
///
/// Without a question the file is read as a server reads it, and what is legal but probably not meant is told. With questions
/// each is answered for the client that --client, --username and --attribute describe: a server takes the username and the
/// attributes from the authentication, the client id from the client.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Check {
    /// The policy: .yaml, .yml, .json or .toml
    file: PathBuf,
    /// The client's id
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    client: String,
    /// The name of its principal, if it has authenticated
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// What else the authentication knows of it; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = attribute)]
    attribute: Vec<(String, String)>,
    /// May it connect?
    #[arg(long)]
    connect: bool,
    /// May it publish to this topic? May be repeated, as all that follow
    #[arg(long, value_name = "TOPIC")]
    publish: Vec<String>,
    /// May it subscribe to this filter?
    #[arg(long, value_name = "FILTER")]
    subscribe: Vec<String>,
    /// May it read this key?
    #[arg(long, value_name = "KEY")]
    read: Vec<String>,
    /// May it write this key?
    #[arg(long, value_name = "KEY")]
    write: Vec<String>,
    /// May it hear what others are notified of this key?
    #[arg(long, value_name = "KEY")]
    audit: Vec<String>,
    /// Does `$high_priority` count in its messages to this topic?
    #[arg(long, value_name = "TOPIC")]
    high_priority: Vec<String>,
    /// Print a JSON object for each answer
    #[arg(long)]
    json: bool,
}

impl PolicyCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let Action::Check(check) = self.action;
        check.run()
    }
}

impl Check {
    fn run(self) -> anyhow::Result<Exit> {
        let subject = self.subject()?;
        let topics = parse_all(&self.publish, |text| Ok(TopicName::parse(text)?))?;
        let urgent = parse_all(&self.high_priority, |text| Ok(TopicName::parse(text)?))?;
        let filters = parse_all(&self.subscribe, |text| Ok(SubscriptionFilter::parse(text)?))?;
        let policy = match read(&self.file) {
            Ok(policy) => policy,
            Err(error) => {
                exit::note(&error.to_string());
                return Ok(MISTAKE);
            }
        };
        let mut requests = Vec::new();
        requests.extend(self.connect.then_some(Request::Connect));
        requests.extend(topics.iter().map(Request::Publish));
        requests.extend(filters.iter().map(|filter| Request::Subscribe(&filter.filter)));
        requests.extend(self.read.iter().map(|key| Request::ReadKey(key.as_bytes())));
        requests.extend(self.write.iter().map(|key| Request::WriteKey(key.as_bytes())));
        requests.extend(self.audit.iter().map(|key| Request::AuditKey(key.as_bytes())));
        requests.extend(urgent.iter().map(Request::HighPriority));
        if requests.is_empty() {
            self.summarise(&policy)?;
            return Ok(Exit::Done);
        }
        let mut are_all_allowed = true;
        for request in requests {
            let told = Told::new(&self.file, &policy, &subject, request);
            are_all_allowed &= told.is_allowed();
            if self.json {
                told.json().print()?;
            } else {
                output::line(told.text())?;
            }
        }
        Ok(if are_all_allowed { Exit::Done } else { DENIED })
    }

    fn subject(&self) -> Result<Subject, UsageError> {
        let attributes = self.attribute.iter();
        let attributes = attributes.map(|(name, value)| Ok((text(name)?, text(value)?)));
        Ok(Subject {
            client_id: text(&self.client)?,
            username: self.username.as_deref().map(text).transpose()?,
            attributes: attributes.collect::<Result<Attributes, UsageError>>()?,
        })
    }

    fn summarise(&self, policy: &Policy) -> anyhow::Result<()> {
        let rules = policy.rules().rules.len();
        let warnings = policy.warnings();
        if self.json {
            let warnings: Vec<_> = warnings
                .iter()
                .map(|warning| warning_json(policy, warning))
                .collect();
            Json::new()
                .with("rules", rules)
                .with("warnings", warnings)
                .print()?;
            return Ok(());
        }
        let s = if rules == 1 { "" } else { "s" };
        output::line(format!(
            "{} is a policy with {rules} rule{s}",
            self.file.display()
        ))?;
        for warning in &warnings {
            let line = line_of(policy, warning).map_or_else(String::new, |line| format!(":{line}"));
            output::line(format!("{}{line}: warning: {warning}", self.file.display()))?;
        }
        Ok(())
    }
}

/// Where the rule begins that a warning is about.
fn line_of(policy: &Policy, warning: &Warning) -> Option<u32> {
    let rule = warning.place.as_ref()?.rule;
    policy.rules().rules.get(rule.position())?.line
}

fn warning_json(policy: &Policy, warning: &Warning) -> Value {
    let rule = warning.place.as_ref().map(|place| place.rule.position() + 1);
    serde_json::json!({
        "rule": rule,
        "line": line_of(policy, warning),
        "warning": warning.to_string(),
    })
}

fn text(text: &str) -> Result<Text, UsageError> {
    Text::new(text).map_err(|error| UsageError(format!("`{text}`: {error}")))
}

fn parse_all<T>(texts: &[String], parse: impl Fn(Text) -> anyhow::Result<T>) -> Result<Vec<T>, UsageError> {
    let parse =
        |asked: &String| parse(text(asked)?).map_err(|error| UsageError(format!("`{asked}`: {error}")));
    texts.iter().map(parse).collect()
}

fn attribute(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Something that was asked for is denied.
const DENIED: Exit = Exit::Code(1);

/// The file is no policy.
const MISTAKE: Exit = Exit::Code(2);

const EXAMPLES: &str = "\
Examples:
  statehold policy check policy.yaml
  statehold policy check policy.yaml --client pump-7 --connect --publish telemetry/pump-7/flow
  statehold policy check policy.yaml --client x --username ann --attribute group=operators --subscribe 'telemetry/#'
  statehold policy check policy.yaml --client pump-7 --read pumps/pump-7/limits --write pumps/pump-8/limits

A policy is a list of rules, each about some clients (principals) and what they may do (resources). For example:
  rules:
    - principals:
        attributes: [{group: pumps}]
      brokerResources:
        - method: Connect
          clientIds: ['{principal.username}']
        - method: Publish
          topics: ['telemetry/{principal.clientId}/#']
      stateStoreResources:
        - method: ReadWrite
          keys: ['pumps/{principal.clientId}/*']
What no rule allows is denied. docs/authorization.md says more.

Exit codes:
  0  all of it is allowed, or the file is a policy
  1  something of it is denied
  2  there is a mistake in the file
  3  wrong arguments";
