//! What processes under test answer.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

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
