//! Ports for processes under test that cannot be told to choose one and say which.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

use tokio::net::TcpSocket;

/// A port that is kept for one process.
///
/// This socket is bound to it and does not listen: the kernel then gives the port to nobody who asks for any port, nor to a
/// connection, but whoever asks for this one by its number may listen on it.
pub struct Port {
    pub number: u16,
    _kept_by: TcpSocket,
}

impl Port {
    pub fn keep() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // Two sockets that both allow it share a port as long as only one of them listens; those of std allow it.
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([0, 0, 0, 0], 0).into()).unwrap();
        Self {
            number: socket.local_addr().unwrap().port(),
            _kept_by: socket,
        }
    }
}
