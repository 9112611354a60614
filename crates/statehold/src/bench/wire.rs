//! One connection of the load: a socket that is never waited for longer than needed, and its two buffers.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::Duration;

use anyhow::Context;
use bytes::{Buf, BytesMut};
use client::protocol::packet::{
    Connect, ConnectProperties, Decoder, Disconnect, Packet, PacketId, ProtocolVersion, QoS, Subscribe,
    encode,
};
use client::protocol::{ReasonCode, Text};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::exit::UsageError;
use crate::server::ServerArgs;

/// Where and as whom to connect.
#[derive(Debug, Clone)]
pub(super) struct Target {
    address: SocketAddr,
    username: Option<Text>,
    password: Option<bytes::Bytes>,
    timeout: Duration,
}

impl Target {
    pub(super) fn new(server: &ServerArgs) -> anyhow::Result<Self> {
        if server.tls || server.cafile.is_some() || server.cert.is_some() {
            return Err(UsageError("the benchmark does not speak TLS".to_owned()).into());
        }
        if server.is_unix() {
            return Err(UsageError("the benchmark needs TCP".to_owned()).into());
        }
        let address = server.address();
        let mut addresses =
            std::net::ToSocketAddrs::to_socket_addrs(&address).with_context(|| address.clone())?;
        let username = server.username.as_ref().map(Text::new).transpose();
        Ok(Self {
            address: addresses.next().context(address)?,
            username: username.map_err(|error| UsageError(format!("user name: {error}")))?,
            password: server
                .username
                .is_some()
                .then(|| server.password())
                .transpose()?
                .map(bytes::Bytes::from),
            timeout: server.timeout,
        })
    }

    /// All of `nodes`, or the server alone if there are none.
    pub(super) fn several(server: &ServerArgs, nodes: &[String]) -> anyhow::Result<Vec<Self>> {
        let alone = Self::new(server)?;
        if nodes.is_empty() {
            return Ok(vec![alone]);
        }
        nodes.iter().map(|node| alone.elsewhere(node)).collect()
    }

    /// As the same user at another address.
    pub(super) fn elsewhere(&self, address: &str) -> anyhow::Result<Self> {
        let mut addresses =
            std::net::ToSocketAddrs::to_socket_addrs(address).with_context(|| address.to_owned())?;
        Ok(Self {
            address: addresses.next().with_context(|| address.to_owned())?,
            ..self.clone()
        })
    }

    /// True if it is on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }
}

/// When the session of a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// With the connection.
    AtOnce,
    /// By itself long after the run, if it is not ended before: the server has to keep it.
    Later,
}

const SESSION_EXPIRY_SECONDS: u32 = 600;

/// Nobody pings, so it is as long as it can be; some servers refuse none.
const KEEP_ALIVE_SECONDS: u16 = u16::MAX;

#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    decoder: Decoder,
    inbox: BytesMut,
    pub(super) outbox: BytesMut,
}

impl Wire {
    /// Connects, up to and with CONNACK.
    pub(super) async fn connect(
        target: &Target,
        client_id: &str,
        source: Option<IpAddr>,
        session: SessionEnd,
    ) -> anyhow::Result<Self> {
        let connecting = Self::connect_now(target, client_id, source, session);
        let connected = tokio::time::timeout(target.timeout, connecting);
        connected
            .await
            .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
    }

    async fn connect_now(
        target: &Target,
        client_id: &str,
        source: Option<IpAddr>,
        session: SessionEnd,
    ) -> anyhow::Result<Self> {
        let socket = if target.address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        if let Some(source) = source {
            // Else ports that closed connections still hold could not be used.
            socket.set_reuseaddr(true)?;
            socket.bind(SocketAddr::new(source, 0))?;
        }
        let stream = socket
            .connect(target.address)
            .await
            .with_context(|| target.address.to_string())?;
        stream.set_nodelay(true)?;
        let decoder = Decoder::for_client(PACKET_SIZE_MAX);
        let mut wire = Self {
            stream,
            decoder,
            inbox: BytesMut::new(),
            outbox: BytesMut::new(),
        };
        wire.send(&Packet::Connect(Box::new(Connect {
            keep_alive: KEEP_ALIVE_SECONDS,
            username: target.username.clone(),
            password: target.password.clone(),
            properties: ConnectProperties {
                session_expiry: (session == SessionEnd::Later).then_some(SESSION_EXPIRY_SECONDS),
                ..ConnectProperties::default()
            },
            ..Connect::new(Text::new(client_id)?)
        })));
        match wire.receive().await? {
            Packet::ConnAck(connack) if connack.reason == ReasonCode::Success => Ok(wire),
            other => anyhow::bail!("not connected: {other:?}"),
        }
    }

    /// Ends the session, also one that would outlive the connection.
    pub(super) async fn end_session(&mut self) -> io::Result<()> {
        self.send(&Packet::Disconnect(Disconnect {
            session_expiry: Some(0),
            ..Disconnect::new(ReasonCode::Success)
        }));
        self.stream.write_all_buf(&mut self.outbox).await
    }

    /// Subscribes, up to and with SUBACK.
    pub(super) async fn subscribe(&mut self, filter: &str, qos: QoS) -> anyhow::Result<()> {
        let packet_id = PacketId::new(u16::MAX).context("not zero")?;
        let subscribe = Subscribe::new(packet_id, qos, [Text::new(filter)?]);
        self.send(&Packet::Subscribe(subscribe));
        loop {
            match self.receive().await? {
                Packet::SubAck(suback) if suback.reasons.iter().all(|reason| !reason.is_error()) => {
                    return Ok(());
                }
                // Another connection of the load has begun already.
                Packet::Publish(_) => {}
                other => anyhow::bail!("not subscribed to {filter}: {other:?}"),
            }
        }
    }

    pub(super) fn send(&mut self, packet: &Packet) {
        // The only error is a packet that is too large, and none of ours is.
        let encoded = encode(packet, ProtocolVersion::V5, u32::MAX, &mut self.outbox);
        assert!(encoded.is_ok(), "a packet of the load is too large");
    }

    /// Appends one of the four acknowledgements, with success.
    pub(super) fn acknowledge(&mut self, kind: AckKind, packet_id: PacketId) {
        let [high, low] = packet_id.get().to_be_bytes();
        self.outbox.extend_from_slice(&[kind as u8, 2, high, low]);
    }

    /// Waits for the next packet.
    pub(super) async fn receive(&mut self) -> anyhow::Result<Packet> {
        loop {
            if let Some(packet) = self.next()? {
                return Ok(packet);
            }
            self.exchange().await?;
        }
    }

    /// Writes what there is to write, and waits until there is something to read.
    pub(super) async fn exchange(&mut self) -> io::Result<()> {
        let Self {
            stream,
            inbox,
            outbox,
            ..
        } = self;
        inbox.reserve(READ_BYTES);
        std::future::poll_fn(|context| {
            while !outbox.is_empty() {
                match Pin::new(&mut *stream).poll_write(context, outbox)? {
                    Poll::Ready(written) => outbox.advance(written),
                    Poll::Pending => break,
                }
            }
            // Polled and not tried: tokio then knows from a short read that there is no more, and spares the system
            // call that would say so.
            let read = ready!(pin!(stream.read_buf(inbox)).poll(context))?;
            Poll::Ready(if read == 0 {
                Err(io::ErrorKind::UnexpectedEof.into())
            } else {
                Ok(())
            })
        })
        .await
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() {
            match self.stream.try_write(&self.outbox) {
                Ok(written) => self.outbox.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next packet that has been read.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Packet>> {
        Ok(self.decoder.decode(&mut self.inbox)?)
    }
}

/// First byte of an acknowledgement. [MQTT-2.1.3-1]
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum AckKind {
    /// PUBACK
    Acknowledged = 0x40,
    /// PUBREC
    Received = 0x50,
    /// PUBREL
    Released = 0x62,
    /// PUBCOMP
    Completed = 0x70,
}

const PACKET_SIZE_MAX: u32 = 64 * 1024 * 1024;
const READ_BYTES: usize = 16 * 1024;
