//! End of a node's service: its clients are told, and have time to read it.
//!
//! A node ends it for two reasons. The server was asked to stop. Or its data directory is an older copy: then it answers
//! operators until it is asked to stop, and nobody else.

use std::rc::Rc;
use std::time::Duration;

use broker::Event;
use tokio::time::{Instant, timeout_at};

use crate::clock;
use crate::driver::{Driver, Inputs};
use crate::error::RunError;

/// How long clients may take to read their DISCONNECT.
const GOODBYE: Duration = Duration::from_secs(2);

/// Sends DISCONNECT to everybody, and waits until it is read.
pub(crate) async fn say(driver: &Rc<Driver>, inputs: &mut Inputs) {
    driver.observed.borrow_mut().is_stopping = true;
    driver.step(Event::Stop);
    // The node bounds its part.
    while driver.is_stopping() {
        if let Err(fault) = driver.turn(inputs).await {
            tracing::error!(%fault, "the disk failed while the server stopped");
            return;
        }
    }
    let deadline = Instant::from_std(clock::instant() + GOODBYE);
    let all_gone = async {
        while driver.sockets_len() > 0 {
            driver.turn(inputs).await?;
        }
        Ok::<(), storage::Fault>(())
    };
    match timeout_at(deadline, all_gone).await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => tracing::error!(%fault, "the disk failed while the server stopped"),
        Err(_) => tracing::info!(
            connections = driver.sockets_len(),
            "some clients did not take their DISCONNECT"
        ),
    }
}

/// Ends the service of a node that is rolled back, now and after each start. Returns when the server is asked to stop.
pub(crate) async fn stand_aside(
    driver: &Rc<Driver>,
    inputs: &mut Inputs,
    cause: String,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    driver.record_rolled_back(&cause)?;
    say(driver, inputs).await;
    tokio::select! {
        () = driver.answer_aside(cause, inputs) => {}
        () = shutdown => {}
    }
    Ok(())
}
