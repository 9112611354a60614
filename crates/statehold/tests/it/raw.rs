//! A client that does only what a test says: it acknowledges, reads and ends nothing by itself.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use client::protocol::packet::{
    Connect, Decoder, Packet, PacketId, ProtocolVersion, Publish, QoS, Subscribe, encode,
};
use client::protocol::properties::MessageProperties;
use client::protocol::{ReasonCode, Text};

/// One connection.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    decoder: Decoder,
    inbox: BytesMut,
}

/// Longer than any answer takes on a machine that has much else to do.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

impl Raw {
    /// Connects, up to and with CONNACK.
    pub(crate) fn connect(address: &str, connect: Connect) -> Self {
        let mut raw = Self::begin(address, connect);
        raw.accepted();
        raw
    }

    /// Sends a CONNECT.
    pub(crate) fn begin(address: &str, connect: Connect) -> Self {
        let mut raw = Self::open(address);
        raw.send(&Packet::Connect(Box::new(connect)));
        raw
    }

    /// Says nothing.
    pub(crate) fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(ANSWER_WITHIN)).expect("set");
        stream.set_write_timeout(Some(ANSWER_WITHIN)).expect("set");
        stream.set_nodelay(true).expect("set");
        Self {
            stream,
            decoder: Decoder::for_client(1 << 20),
            inbox: BytesMut::new(),
        }
    }

    /// CONNACK with success; whether the session was there.
    pub(crate) fn accepted(&mut self) -> bool {
        match self.receive() {
            Packet::ConnAck(connack) if connack.reason == ReasonCode::Success => connack.session_present,
            other => panic!("not connected: {other:?}"),
        }
    }

    /// Subscribes, up to and with SUBACK.
    pub(crate) fn subscribe(&mut self, filter: &'static str, qos: QoS) {
        self.send(&subscribe(filter, qos));
        match self.receive() {
            Packet::SubAck(suback) => assert!(!suback.reasons[0].is_error(), "{suback:?}"),
            other => panic!("not subscribed: {other:?}"),
        }
    }

    pub(crate) fn send(&mut self, packet: &Packet) {
        self.stream.write_all(&bytes(packet)).expect("sent");
    }

    /// The next packet.
    pub(crate) fn receive(&mut self) -> Packet {
        self.try_receive().expect("the connection lives")
    }

    /// The next packet; none at the end of the connection.
    pub(crate) fn try_receive(&mut self) -> Option<Packet> {
        loop {
            if let Some(packet) = self.decoder.decode(&mut self.inbox).expect("a packet") {
                return Some(packet);
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.inbox.extend_from_slice(&chunk[..count]),
                Err(error) if is_timeout(&error) => panic!("no answer"),
                Err(_) => return None,
            }
        }
    }

    /// Lets so much time pass, or less if the server sends something or closes the connection. Returns whether it did neither.
    pub(crate) fn is_quiet_for(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).expect("set");
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(Some(ANSWER_WITHIN)).expect("set");
        matches!(peeked, Err(error) if is_timeout(&error))
    }

    /// Waits until the server has closed the connection, whatever it says before.
    pub(crate) fn closed(&mut self) {
        while self.try_receive().is_some() {}
    }

    /// Ends with a reset instead of an end.
    pub(crate) fn reset(self) {
        let socket = socket2::SockRef::from(&self.stream);
        socket.set_linger(Some(Duration::ZERO)).expect("set");
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
    )
}

/// A CONNECT whose session ends with its connection.
pub(crate) fn connect(client_id: &str) -> Connect {
    Connect {
        clean_start: false,
        keep_alive: 60,
        ..Connect::new(Text::new(client_id).expect("short"))
    }
}

/// A CONNECT whose session outlives its connection.
pub(crate) fn connect_durably(client_id: &str) -> Connect {
    let mut connect = connect(client_id);
    connect.properties.session_expiry = Some(600);
    connect
}

pub(crate) fn subscribe(filter: &'static str, qos: QoS) -> Packet {
    Packet::Subscribe(Subscribe::new(packet_id(1), qos, [Text::from_static(filter)]))
}

/// A message of QoS 1 if it has a packet id, else of QoS 0.
pub(crate) fn publish(topic: &'static str, packet_id: Option<PacketId>, payload: &[u8]) -> Packet {
    Packet::Publish(Box::new(Publish {
        dup: false,
        qos: if packet_id.is_some() {
            QoS::AtLeastOnce
        } else {
            QoS::AtMostOnce
        },
        retain: false,
        topic: Text::from_static(topic),
        packet_id,
        topic_alias: None,
        subscription_ids: Default::default(),
        properties: MessageProperties::default(),
        payload: payload.to_vec().into(),
    }))
}

pub(crate) fn packet_id(number: u16) -> PacketId {
    PacketId::new(number).expect("not 0")
}

pub(crate) fn bytes(packet: &Packet) -> BytesMut {
    let mut bytes = BytesMut::new();
    encode(packet, ProtocolVersion::V5, u32::MAX, &mut bytes).expect("small");
    bytes
}
