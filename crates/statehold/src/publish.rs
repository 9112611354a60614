//! `statehold pub`

use std::io::BufRead;
use std::time::Duration;

use clap::Args;
use client::protocol::Text;
use client::protocol::properties::UserProperties;
use client::{Client, Message, QoS};

use crate::duration;
use crate::exit::{Exit, UsageError};
use crate::input::ValueArgs;
use crate::runtime::block_on;
use crate::server::ServerArgs;

/// Publish a message.
///
/// Ends when the server has acknowledged it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Publish {
    /// The topic name
    topic: String,
    #[command(flatten)]
    value: ValueArgs,
    /// Publish each line of stdin as a message
    #[arg(long, short = 'l', conflicts_with_all = ["value", "file"])]
    lines: bool,
    /// Quality of service: 0, 1 or 2
    #[arg(long, short = 'q', default_value = "1", value_parser = parse_qos)]
    qos: QoS,
    /// Keep it as the retained message of the topic
    #[arg(long, short = 'r')]
    retain: bool,
    /// The message is not delivered later than this
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    expiry: Option<Duration>,
    /// What the payload is, for example application/json
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Where an answer should go
    #[arg(long, value_name = "TOPIC")]
    response_topic: Option<String>,
    /// What an answer should carry
    #[arg(long, value_name = "DATA")]
    correlation_data: Option<String>,
    /// A user property, more than once if needed
    #[arg(long, short = 'D', value_name = "NAME=VALUE")]
    property: Vec<String>,
    #[command(flatten)]
    server: ServerArgs,
}

impl Publish {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let template = self.message()?;
        let Self {
            value, lines, server, ..
        } = self;
        let payload = if lines { None } else { Some(value.read()?) };
        block_on(async {
            let client = Client::connect(server.options()?).await?;
            match payload {
                Some(payload) => {
                    client.publish(Message { payload, ..template }).await?;
                }
                None => {
                    for line in std::io::stdin().lock().lines() {
                        client
                            .publish(Message {
                                payload: line?.into(),
                                ..template.clone()
                            })
                            .await?;
                    }
                }
            }
            client.disconnect().await;
            Ok(Exit::Done)
        })
    }

    /// The message without its payload.
    fn message(&self) -> anyhow::Result<Message> {
        let mut message = Message::to(&self.topic, "")?.with_qos(self.qos);
        message.retain = self.retain;
        let properties = &mut message.properties;
        let seconds = |expiry: Duration| u32::try_from(expiry.as_secs()).unwrap_or(u32::MAX);
        properties.message_expiry = self.expiry.map(seconds);
        properties.content_type = self.content_type.as_deref().map(text).transpose()?;
        properties.response_topic = self.response_topic.as_deref().map(text).transpose()?;
        properties.correlation_data = self.correlation_data.clone().map(Into::into);
        let pairs = self.property.iter().map(|pair| {
            let named = pair.split_once('=').filter(|(name, _)| !name.is_empty());
            named.ok_or_else(|| UsageError(format!("{pair:?} is not NAME=VALUE")))
        });
        let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
        properties.user_properties =
            UserProperties::from_pairs(pairs).map_err(|error| UsageError(error.to_string()))?;
        Ok(message)
    }
}

/// Parses a quality of service.
pub(crate) fn parse_qos(digit: &str) -> Result<QoS, String> {
    match digit {
        "0" => Ok(QoS::AtMostOnce),
        "1" => Ok(QoS::AtLeastOnce),
        "2" => Ok(QoS::ExactlyOnce),
        _ => Err("must be 0, 1 or 2".to_owned()),
    }
}

fn text(string: &str) -> Result<Text, UsageError> {
    Text::new(string).map_err(|error| UsageError(format!("{string:?}: {error}")))
}

const EXAMPLES: &str = "\
Examples:
  statehold pub plant/1/temperature 21.5
  statehold pub plant/1/state on --retain
  tail -F log | statehold pub logs/this-machine --lines --qos 0";
