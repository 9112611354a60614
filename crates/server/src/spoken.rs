//! What a connection speaks that speaks something else than its listener, told by its first bytes: so that the log can say what to do.

/// A protocol that does not belong where it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// MQTT, with nothing around it.
    Mqtt,
    Tls,
    Http,
    /// A header of the PROXY protocol.
    Proxy,
}

/// First bytes that are looked at: the longest beginning of those below.
pub(crate) const FIRST_BYTES: usize = 12;

impl Spoken {
    /// `None`: it is not known what these are, or they are too few.
    pub(crate) fn of(first: &[u8]) -> Option<Self> {
        let begins = |all: &[&[u8]]| all.iter().any(|start| first.starts_with(start));
        if begins(&[&[0x16, 0x03]]) {
            Some(Self::Tls)
        } else if begins(&[b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n"]) {
            Some(Self::Proxy)
        } else if begins(HTTP) {
            Some(Self::Http)
        } else if begins(&[&[0x10]]) {
            Some(Self::Mqtt)
        } else {
            None
        }
    }

    /// What an operator does about it, at a listener that begins with MQTT.
    pub(crate) fn at_plain(self) -> &'static str {
        match self {
            Self::Tls => {
                "the client speaks TLS to a listener without it; add [listeners.tls], or turn TLS off in the client"
            }
            Self::Http => {
                "the client speaks HTTP; MQTT over WebSocket needs a listener with [listeners.websocket], \
                 and health checks belong to /healthz of the admin pages"
            }
            Self::Proxy => {
                "the connection begins with a header of the PROXY protocol; set listeners.proxy_protocol = true, \
                 or let the proxy send none"
            }
            Self::Mqtt => "the client speaks MQTT",
        }
    }

    /// The same at a listener that begins with TLS.
    pub(crate) fn at_tls(self) -> &'static str {
        match self {
            Self::Mqtt => {
                "the client speaks MQTT without TLS; turn TLS on in the client, or let it connect to a listener without"
            }
            Self::Http => "the client speaks HTTP without TLS; it has to use https: or wss:",
            Self::Proxy => Self::Proxy.at_plain(),
            Self::Tls => "the client speaks TLS",
        }
    }

    /// The same at a listener that begins with the opening handshake of WebSocket.
    pub(crate) fn at_websocket(self) -> &'static str {
        match self {
            Self::Mqtt => {
                "the client speaks MQTT without WebSocket; let it use ws: or wss:, or a listener without [listeners.websocket]"
            }
            Self::Tls => {
                "the client speaks TLS to a listener without it; add [listeners.tls], or let the client use ws: for wss:"
            }
            Self::Proxy => Self::Proxy.at_plain(),
            Self::Http => "the client speaks HTTP, but not as version 1.1 of it",
        }
    }
}

/// Methods of HTTP, the preface of version 2 among them.
const HTTP: &[&[u8]] = &[
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
    b"PRI * HTTP/2",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spoken_is_known_by_its_first_bytes() {
        let cases: [(&[u8], _); 8] = [
            (b"\x16\x03\x01\x02\0\x01", Some(Spoken::Tls)),
            (b"PROXY TCP4 1", Some(Spoken::Proxy)),
            (b"\r\n\r\n\0\r\nQUIT\n", Some(Spoken::Proxy)),
            (b"GET / HTTP/1", Some(Spoken::Http)),
            (b"CONNECT a:1 ", Some(Spoken::Http)),
            (b"\x10\x0e\0\x04MQTT", Some(Spoken::Mqtt)),
            (b"SSH-2.0-", None),
            (b"", None),
        ];
        for (first, expected) in cases {
            assert_eq!(Spoken::of(first), expected, "{first:?}");
        }
        let longest = HTTP.iter().map(|start| start.len()).max();
        assert_eq!(longest, Some(FIRST_BYTES));
    }
}
