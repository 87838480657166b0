//! A gRPC caller made of bytes, for what no well-behaved client does: send a path as authority, or keep waiting
//! after its own deadline.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// A header field whose name has a number in HPACK's static table; zero means the first text is the name.
pub fn field(name: u8, texts: &[&str]) -> Vec<u8> {
    let mut field = vec![0x40 | name];
    for text in texts {
        field.push(u8::try_from(text.len()).expect("a short text"));
        field.extend_from_slice(text.as_bytes());
    }
    field
}

/// `:authority` in the static table.
pub const AUTHORITY: u8 = 1;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("a short frame");
    let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

pub struct RawClient {
    connection: UnixStream,
    stream: u8,
}

/// How a call ended, as far as it can be seen without understanding headers.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// With a message and trailers: gRPC status OK, or a stream that failed later.
    WithData,
    /// With trailers only: some other gRPC status.
    WithoutData,
    /// The transport refused it.
    Reset,
}

impl RawClient {
    pub async fn connect(path: &std::path::Path) -> Self {
        let mut connection = UnixStream::connect(path).await.expect("a socket");
        let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        hello.extend(frame(SETTINGS, 0, 0, &[]));
        connection.write_all(&hello).await.expect("a listener");
        Self {
            connection,
            stream: 1,
        }
    }

    /// Makes a call with some header fields of its own and an encoded message, and waits for its end.
    pub async fn call(&mut self, method: &str, fields: &[Vec<u8>], message: &[u8]) -> Ended {
        // POST, http
        let mut headers = vec![0x83, 0x86];
        headers.extend(field(4, &[method]));
        headers.extend(fields.concat());
        headers.extend(field(0x1f, &["application/grpc"]));
        headers.extend(field(0, &["te", "trailers"]));
        let length = u8::try_from(message.len()).expect("a short message");
        let data = [&[0, 0, 0, 0, length], message].concat();

        let mut bytes = frame(HEADERS, END_HEADERS, self.stream, &headers);
        bytes.extend(frame(DATA, END_STREAM, self.stream, &data));
        self.connection.write_all(&bytes).await.expect("a listener");
        self.ended().await
    }

    async fn ended(&mut self) -> Ended {
        let stream = self.stream;
        self.stream += 2;
        let mut ended = Ended::WithoutData;
        loop {
            let mut head = [0; 9];
            self.connection
                .read_exact(&mut head)
                .await
                .expect("a frame");
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).expect("a size")];
            self.connection
                .read_exact(&mut payload)
                .await
                .expect("a payload");
            match (head[3], head[4], head[8]) {
                (SETTINGS, 0, _) => {
                    let ack = frame(SETTINGS, ACK, 0, &[]);
                    self.connection.write_all(&ack).await.expect("a listener");
                }
                (RST_STREAM, _, id) if id == stream => return Ended::Reset,
                (DATA, _, id) if id == stream => ended = Ended::WithData,
                (HEADERS, flags, id) if id == stream && flags & END_STREAM != 0 => return ended,
                _ => {}
            }
        }
    }
}
