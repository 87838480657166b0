//! Ports of processes under test.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crate::error::{Doing, Result};

/// A port that was free a moment ago.
pub fn free_port() -> Result<u16> {
    let listener =
        TcpListener::bind("127.0.0.1:0").doing(|| "cannot find a free port".to_owned())?;
    let address = listener.local_addr();
    Ok(address
        .doing(|| "cannot tell which port is free".to_owned())?
        .port())
}

/// The whole answer of a process on this machine to a GET, with its headers.
pub fn http_get(port: u16, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
