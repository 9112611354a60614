//! Messages: publish, subscribe with a wildcard, a retained message.
//!
//! `cargo run --example publish_subscribe -- 127.0.0.1:1883`

use std::error::Error;

use statehold_client::{Client, Message, Options, QoS};

pub(crate) async fn run(address: &str) -> Result<(), Box<dyn Error>> {
    let sensor = Client::connect(Options::new(address)).await?;
    let display = Client::connect(Options::new(address)).await?;

    let state = Message::to("example/plant/1/state", "on")?
        .with_qos(QoS::ExactlyOnce)
        .retained();
    sensor.publish(state).await?;

    let mut messages = display.subscribe("example/plant/+/#", QoS::ExactlyOnce).await?;
    let retained = messages.recv().await.ok_or("the subscription has ended")?;
    assert!(retained.retain);
    assert_eq!(retained.payload, "on");

    for temperature in ["21.5", "21.6"] {
        sensor
            .publish_to("example/plant/1/temperature", temperature)
            .await?;
        let message = messages.recv().await.ok_or("the subscription has ended")?;
        assert_eq!(
            (message.topic.as_str(), message.payload.as_ref()),
            ("example/plant/1/temperature", temperature.as_bytes())
        );
    }

    // An empty retained message takes the retained message of the topic away.
    sensor
        .publish(Message::to("example/plant/1/state", "")?.retained())
        .await?;
    drop(messages);
    sensor.disconnect().await;
    display.disconnect().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:1883".to_owned()))
    .await
}
