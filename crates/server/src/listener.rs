//! Accepts connections.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::driver::Driver;
use crate::error::RunError;
use crate::socket;

/// Connections that the system keeps until they are accepted: enough for a fleet that comes back at once.
const BACKLOG: i32 = 4096;

/// How long to wait when the system has no descriptor left.
const PAUSE_WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(50);

/// Binds an address. Has to be called within a tokio runtime.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, RunError> {
    listen(address).map_err(|error| RunError::Bind { address, error })
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart does not wait for the connections of the run before.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts until it is dropped.
pub(crate) async fn accept(driver: Rc<Driver>, listener: TcpListener) {
    let mut is_failing = false;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                is_failing = false;
                serve(&driver, stream, peer);
            }
            Err(error) => {
                // Told once, not for every connection that waits.
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::error!(%error, "cannot accept a connection");
                }
                tokio::time::sleep(PAUSE_WITHOUT_DESCRIPTORS).await;
            }
        }
    }
}

fn serve(driver: &Rc<Driver>, stream: TcpStream, peer: SocketAddr) {
    // Writes are batched already; waiting for more would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, %peer, "the connection ended before it began");
        return;
    }
    let Some(id) = driver.reserve() else {
        tracing::warn!(%peer, "closed a connection: the limit of connections is reached");
        return;
    };
    tokio::task::spawn_local(socket::run(Rc::clone(driver), stream, id, peer));
}
