//! `statehold sub`

use std::time::Duration;

use clap::Args;
use client::{Client, Message, QoS, RetainHandling, SubscriptionOptions};

use crate::duration;
use crate::exit::Exit;
use crate::output::{self, Json};
use crate::publish::parse_qos;
use crate::runtime::block_on;
use crate::server::ServerArgs;

/// Receive messages.
///
/// Writes each payload as it is, and a line break. With --client-id the server keeps messages for --session-expiry after
/// the command has ended; the next run with the same id and filters begins with them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Subscribe {
    /// Topic filters: + stands for one level, # for the rest, $share/NAME/ in front shares the messages
    #[arg(required = true)]
    filters: Vec<String>,
    /// Maximum quality of service: 0, 1 or 2
    #[arg(long, short = 'q', default_value = "1", value_parser = parse_qos)]
    qos: QoS,
    /// Write the topic and a space before each payload
    #[arg(long, short = 'v', conflicts_with = "json")]
    verbose: bool,
    /// End after this many messages
    #[arg(long, short = 'C', value_name = "N")]
    count: Option<u64>,
    /// No retained messages
    #[arg(long)]
    no_retained: bool,
    /// With --client-id: how long the server keeps messages while this command does not run
    #[arg(long, value_name = "TIME", requires = "client_id", value_parser = duration::parse)]
    session_expiry: Option<Duration>,
    /// Print a JSON object for each message
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

impl Subscribe {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        block_on(async {
            let mut options = self.server.lasting_options()?;
            if let Some(expiry) = self.session_expiry {
                options = options.session_expiry(expiry);
            }
            let client = Client::connect(options).await?;
            let retain_handling = if self.no_retained {
                RetainHandling::DoNotSend
            } else {
                RetainHandling::Send
            };
            let options = SubscriptionOptions {
                qos: self.qos,
                retain_handling,
                ..SubscriptionOptions::default()
            };
            let filters: Vec<_> = self
                .filters
                .iter()
                .map(|filter| (filter.as_str(), options))
                .collect();
            let mut subscription = client.subscribe_with(&filters).await?;
            for (filter, reason) in self.filters.iter().zip(subscription.reasons()) {
                anyhow::ensure!(
                    !reason.is_error(),
                    client::OperationError::Refused {
                        reason: *reason,
                        explanation: client::protocol::Text::new(filter.clone()).ok(),
                    }
                );
            }
            let mut left = self.count.unwrap_or(u64::MAX);
            while left > 0 {
                let Some(message) = subscription.recv().await else {
                    break;
                };
                self.show(&message)?;
                left -= 1;
            }
            if let Some(error) = subscription.end() {
                return Err(error.clone().into());
            }
            client.disconnect().await;
            Ok(Exit::Done)
        })
    }

    fn show(&self, message: &Message) -> std::io::Result<()> {
        if self.json {
            return json(message).print();
        }
        if self.verbose {
            return output::record([message.topic.as_str().as_bytes(), b" ", &message.payload].concat());
        }
        output::line(&message.payload)
    }
}

fn json(message: &Message) -> Json {
    let properties = &message.properties;
    let mut json = Json::new()
        .with("topic", message.topic.as_str())
        .with_bytes("payload", &message.payload)
        .with("qos", message.qos as u8)
        .with("retain", message.retain);
    for (name, text) in [
        ("content_type", &properties.content_type),
        ("response_topic", &properties.response_topic),
    ] {
        if let Some(text) = text {
            json = json.with(name, text.as_str());
        }
    }
    if let Some(data) = &properties.correlation_data {
        json = json.with_bytes("correlation_data", data);
    }
    let pairs: Vec<_> = properties
        .user_properties
        .iter()
        .map(|(name, value)| vec![name, value])
        .collect();
    if pairs.is_empty() {
        json
    } else {
        json.with("user_properties", pairs)
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold sub 'plant/+/temperature' -v
  statehold sub 'plant/#' --json | jq .payload
  statehold sub '$share/workers/jobs' --qos 2
  statehold sub status --count 1";
