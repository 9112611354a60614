//! A relay between a client and the server, so that a test can cut the line without touching either.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes bytes both ways between whoever connects to [`Relay::address`] and the server.
pub struct Relay {
    address: SocketAddr,
    cuts: watch::Sender<u32>,
}

impl Relay {
    /// Listens on a free port for connections to pass on to `server`.
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let (cuts, cut) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, server, cut.clone()));
            }
        });
        Self { address, cuts }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts every connection that passes through now. New ones are accepted at once.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn pass_on(mut client: TcpStream, server: SocketAddr, mut cut: watch::Receiver<u32>) {
    cut.mark_unchanged();
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        _ = cut.changed() => {}
    }
}
