//! A socket of the system that takes connections: TCP, or a Unix socket with its file.

use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, SockAddr, Socket as SystemSocket, Type};
use tokio::net::{TcpListener, UnixListener};

use crate::client_address::ClientAddress;
use crate::config::{self, FileMode, ListenAddress, SocketPath};
use crate::stream::Stream;

/// A socket that takes connections.
#[derive(Debug)]
pub(crate) enum BoundSocket {
    Tcp(TcpListener),
    Unix {
        // Before the socket: while the file is there, somebody listens.
        _file: SocketFile,
        path: SocketPath,
        socket: UnixListener,
    },
}

/// Connections that the system keeps until they are accepted: enough for a fleet that comes back at once.
const BACKLOG: i32 = 4096;

impl BoundSocket {
    /// Binds a listener's address. Has to be called within a tokio runtime.
    pub(crate) fn bind(settings: &config::Listener) -> io::Result<Self> {
        match &settings.address {
            ListenAddress::Ip(address) => Ok(Self::Tcp(bind_tcp(*address)?)),
            ListenAddress::Unix(path) => {
                let (socket, file) = bind_unix(path.to_path(), settings.mode.unwrap_or_default())?;
                Ok(Self::Unix {
                    _file: file,
                    path: path.clone(),
                    socket,
                })
            }
        }
    }

    /// Where it really is.
    pub(crate) fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(socket) => socket.local_addr().map(ListenAddress::Ip),
            Self::Unix { path, .. } => Ok(ListenAddress::Unix(path.clone())),
        }
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, ClientAddress)> {
        match self {
            Self::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                // Writes are batched already; waiting for more would only delay them. This fails on a connection that has
                // ended, which reading will show.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), ClientAddress::Ip(peer)))
            }
            Self::Unix { socket, .. } => {
                let (stream, _) = socket.accept().await?;
                let peer = ClientAddress::Unix(stream.peer_cred().ok());
                Ok((Stream::Unix(stream), peer))
            }
        }
    }
}

/// A port of this process where nobody can connect yet. No other server gets it meanwhile, and no connection that a program makes.
#[derive(Debug)]
pub(crate) struct ReservedPort(SystemSocket);

impl ReservedPort {
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = SystemSocket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // A restart does not wait for the connections of the run before.
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(Self(socket))
    }

    /// From here on clients can connect. Has to be called within a tokio runtime.
    pub(crate) fn listen(self) -> io::Result<TcpListener> {
        self.0.listen(BACKLOG)?;
        TcpListener::from_std(self.0.into())
    }
}

pub(crate) fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    ReservedPort::bind(address)?.listen()
}

/// Nobody can connect before the file has its mode: until then the socket does not listen.
fn bind_unix(path: PathBuf, mode: FileMode) -> io::Result<(UnixListener, SocketFile)> {
    remove_stale(&path)?;
    let socket = SystemSocket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(&path)?)?;
    let file = SocketFile::of(path)?;
    std::fs::set_permissions(&file.path, Permissions::from_mode(mode.bits()))?;
    socket.listen(BACKLOG)?;
    let socket = UnixListener::from_std(OwnedFd::from(socket).into())?;
    Ok((socket, file))
}

/// Removes the file of a server that was killed. Any other file stays, and is an error.
fn remove_stale(path: &Path) -> io::Result<()> {
    let metadata = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !metadata.file_type().is_socket() {
        let why = "there is a file that is no socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    if is_listened_at(path)? {
        let why = "another process listens there";
        return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    }
    std::fs::remove_file(path)
}

fn is_listened_at(path: &Path) -> io::Result<bool> {
    let socket = SystemSocket::new(Domain::UNIX, Type::STREAM, None)?;
    // One that listens and has no time to accept is not waited for.
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Ok(true),
            io::ErrorKind::ConnectionRefused => Ok(false),
            _ => Err(error),
        },
    }
}

/// The file of a Unix socket, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and number: another server may have put its own file there.
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: PathBuf) -> io::Result<Self> {
        Ok(Self {
            identity: identity(&path)?,
            path,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = identity(&self.path).is_ok_and(|found| found == self.identity);
        if is_ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the file of a Unix socket stays behind");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener as StdListener;

    use super::*;

    fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
        bind_unix(path.to_owned(), FileMode::default())
    }

    /// Runs a test with the path of a file that is not there yet.
    fn check(test: impl FnOnce(&Path)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.expect("a runtime");
        let _within = runtime.enter();
        let directory = tempfile::TempDir::new().expect("a directory");
        test(&directory.path().join("socket"));
    }

    #[test]
    fn a_reserved_port_turns_clients_away_and_is_nobody_elses() {
        check(|_| {
            let reserved = ReservedPort::bind(([127, 0, 0, 1], 0).into()).expect("bound");
            let address = reserved.0.local_addr().expect("bound");
            let client = || SystemSocket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            let refused = client().connect(&address).expect_err("nobody listens");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            // As a connection has it that a program makes.
            let taken = client().bind(&address).expect_err("it is reserved");
            assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
            let _listener = reserved.listen().expect("listens");
            client().connect(&address).expect("connected");
        });
    }

    #[test]
    fn the_file_has_its_mode_and_goes_with_the_socket() {
        check(|path| {
            let bound = bind(path).expect("bound");
            let mode = std::fs::metadata(path).expect("there").mode();
            assert_eq!(mode & 0o7777, 0o660);
            drop(bound);
            assert!(!path.exists());
        });
    }

    #[test]
    fn a_file_that_nobody_listens_at_is_replaced() {
        check(|path| {
            drop(StdListener::bind(path).expect("bound"));
            assert!(path.exists());
            bind(path).expect("bound");
        });
    }

    #[test]
    fn a_socket_that_somebody_listens_at_stays() {
        check(|path| {
            let _other = StdListener::bind(path).expect("bound");
            let error = bind(path).expect_err("in use");
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            assert!(path.exists());
        });
    }

    #[test]
    fn a_socket_whose_owner_has_no_time_to_accept_stays() {
        check(|path| {
            let address = SockAddr::unix(path).expect("short enough");
            let socket = || SystemSocket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
            let busy = socket();
            busy.bind(&address).expect("bound");
            busy.listen(0).expect("listens");
            let mut waiting = Vec::new();
            let is_full = loop {
                let client = socket();
                client.set_nonblocking(true).expect("set");
                match client.connect(&address) {
                    Ok(()) => waiting.push(client),
                    Err(error) => break error.kind() == io::ErrorKind::WouldBlock,
                }
            };
            assert!(is_full, "after {} connections", waiting.len());
            let error = bind(path).expect_err("in use");
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            assert!(path.exists());
        });
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        check(|path| {
            std::fs::write(path, "precious").expect("written");
            assert!(bind(path).is_err());
            assert!(path.exists());
        });
    }

    #[test]
    fn the_file_of_a_later_server_stays() {
        check(|path| {
            let first = bind(path).expect("bound");
            // Both are there at once, so that they are not given the same number.
            let aside = path.with_extension("aside");
            std::fs::rename(path, &aside).expect("renamed");
            let _second = bind(path).expect("bound");
            drop(first);
            assert!(path.exists());
        });
    }
}
