use std::time::Duration;

use azure_iot_operations_mqtt::aio::connection_settings::MqttConnectionSettingsBuilder;
use azure_iot_operations_mqtt::session::{Session, SessionOptionsBuilder};
use azure_iot_operations_protocol::application::ApplicationContextBuilder;
use azure_iot_operations_services::state_store::{Client, ClientOptionsBuilder, SetOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = MqttConnectionSettingsBuilder::default()
        .client_id("first-steps")
        .hostname("127.0.0.1")
        .tcp_port(1883u16)
        .use_tls(false)
        .build()?;
    let session = Session::new(
        SessionOptionsBuilder::default()
            .connection_settings(settings)
            .build()?,
    )?;
    let (exit, monitor) = (session.create_exit_handle(), session.create_session_monitor());
    let store = Client::new(
        ApplicationContextBuilder::default().build()?,
        session.create_managed_client(),
        monitor,
        ClientOptionsBuilder::default().build()?,
    )?;
    let work = async move {
        let timeout = Duration::from_secs(10);
        let set = store
            .set(
                b"door".to_vec(),
                b"open".to_vec(),
                timeout,
                None,
                SetOptions::default(),
            )
            .await?;
        let got = store.get(b"door".to_vec(), timeout).await?;
        println!("{:?} at {:?}", got.response, set.version);
        store.shutdown().await?;
        exit.try_exit()?;
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    let (ended, worked) = tokio::join!(session.run(), work);
    worked?;
    Ok(ended?)
}
