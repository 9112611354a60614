//! A blocking connection that speaks MQTT packets, or bytes that are none.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use client::protocol::packet::{
    Ack, ConnAck, Connect, ConnectProperties, Decoder, Packet, PacketId, ProtocolVersion, Publish, QoS,
    Subscribe, encode,
};
use client::protocol::properties::{MessageProperties, UserProperties};
use client::protocol::{ReasonCode, Text, state_store};
use socket2::{Domain, Socket, Type};

/// No answer takes this long. A server that does not answer is found out by it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Larger than anything that the tests let a server send.
const PACKET_SIZE_MAX: u32 = 16 << 20;

/// One connection to the server.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    decoder: Decoder,
    input: BytesMut,
    output: BytesMut,
}

impl Wire {
    /// Opens a connection and says nothing yet.
    pub(crate) fn open(server: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect(server)?)
    }

    /// The same from an address of one's own.
    ///
    /// Who closes first keeps the port of the connection for a minute. Tests that open more connections than
    /// there are ports take other addresses than 127.0.0.1, so that everybody else still finds a free one.
    pub(crate) fn open_from(source: Ipv4Addr, server: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((source, 0)).into())?;
        socket.connect(&server.into())?;
        Self::over(socket.into())
    }

    fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self {
            stream,
            decoder: Decoder::for_client(PACKET_SIZE_MAX),
            input: BytesMut::new(),
            output: BytesMut::new(),
        })
    }

    /// Opens a connection, sends CONNECT and waits for a CONNACK of success.
    pub(crate) fn connect(server: SocketAddr, connect: Connect) -> io::Result<(Self, ConnAck)> {
        let mut wire = Self::open(server)?;
        wire.send_connect(connect)?;
        match wire.receive()? {
            Packet::ConnAck(connack) if connack.reason == ReasonCode::Success => Ok((wire, *connack)),
            other => panic!("no connection: {other:?}"),
        }
    }

    /// Sends CONNECT; from here on the connection speaks its version.
    pub(crate) fn send_connect(&mut self, connect: Connect) -> io::Result<()> {
        self.decoder.set_version(connect.version);
        self.send(&Packet::Connect(Box::new(connect)))
    }

    /// Sends a packet and everything that was queued before it.
    pub(crate) fn send(&mut self, packet: &Packet) -> io::Result<()> {
        self.queue(packet);
        self.flush()
    }

    /// Puts a packet behind those that the next [`flush`](Self::flush) sends.
    pub(crate) fn queue(&mut self, packet: &Packet) {
        encode(packet, ProtocolVersion::V5, PACKET_SIZE_MAX, &mut self.output).unwrap();
    }

    /// Sends what was queued, in one write.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish_sending(&mut self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Write)
    }

    /// All bytes that the server sends until it ends the connection. An error if it does not.
    pub(crate) fn drain(&mut self) -> io::Result<Vec<u8>> {
        let (mut bytes, mut chunk) = (Vec::new(), [0; 4_096]);
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(bytes),
                Ok(length) => bytes.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(bytes),
                Err(error) => return Err(error),
            }
        }
    }

    /// The next packet; an error once the connection has ended or nothing came for [`TIMEOUT`].
    pub(crate) fn receive(&mut self) -> io::Result<Packet> {
        loop {
            let packet = self.decoder.decode(&mut self.input).map_err(io::Error::other)?;
            if let Some(packet) = packet {
                return Ok(packet);
            }
            let mut chunk = [0; 16_384];
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.input.extend_from_slice(&chunk[..length]),
            }
        }
    }
}

/// A CONNECT of version 5 that keeps its session for an hour unless `clean`, which starts without one.
pub(crate) fn connect(client_id: &str, clean: bool) -> Connect {
    Connect {
        clean_start: clean,
        properties: ConnectProperties {
            session_expiry: (!clean).then_some(3_600),
            ..ConnectProperties::default()
        },
        ..Connect::new(text(client_id))
    }
}

/// A PUBLISH without properties; `packet_id` is left out for QoS 0.
pub(crate) fn publish(topic: &str, payload: impl Into<Bytes>, qos: QoS, packet_id: u16) -> Publish {
    Publish {
        dup: false,
        qos,
        retain: false,
        topic: text(topic),
        packet_id: (qos != QoS::AtMostOnce).then(|| id(packet_id)),
        topic_alias: None,
        subscription_ids: Default::default(),
        properties: MessageProperties::default(),
        payload: payload.into(),
    }
}

/// A SUBSCRIBE to one filter.
pub(crate) fn subscribe(filter: &str, qos: QoS, packet_id: u16) -> Packet {
    Packet::Subscribe(Subscribe::new(id(packet_id), qos, [text(filter)]))
}

/// A request to the state store, as the official clients send it.
pub(crate) fn request(
    request: &state_store::Request,
    answer_to: &str,
    correlation: impl Into<Bytes>,
    packet_id: u16,
) -> Publish {
    let mut publish = publish(
        state_store::INVOKE_TOPIC,
        request.encode(),
        QoS::AtLeastOnce,
        packet_id,
    );
    publish.properties = MessageProperties {
        response_topic: Some(text(answer_to)),
        correlation_data: Some(correlation.into()),
        // A clock far behind is legal, and the version is then the server's own.
        user_properties: UserProperties::from_pairs([("__ts", "1:0:test"), ("__protVer", "1.0")]).unwrap(),
        ..MessageProperties::default()
    };
    publish
}

/// An acknowledgement of success.
pub(crate) fn ack(packet_id: PacketId) -> Ack {
    Ack::new(packet_id, ReasonCode::Success)
}

/// A packet identifier that is none of 0.
pub(crate) fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

/// A valid MQTT string.
pub(crate) fn text(text: &str) -> Text {
    Text::new(text).unwrap()
}
