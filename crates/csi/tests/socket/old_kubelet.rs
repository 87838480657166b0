//! Kubelets before 1.26 send the path of the socket as authority. No Rust client would, so the call is made by hand.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

use crate::driver::Served;

const SETTINGS: u8 = 4;
const HEADERS: u8 = 1;
const DATA: u8 = 0;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("a short frame");
    let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

/// A header field whose name is in HPACK's static table, or not (`name` zero, `field` holds the name first).
fn field(name: u8, texts: &[&str]) -> Vec<u8> {
    let mut field = vec![0x40 | name];
    for text in texts {
        field.push(u8::try_from(text.len()).expect("a short text"));
        field.extend_from_slice(text.as_bytes());
    }
    field
}

/// Calls Probe on `stream` with the header that names the authority, and says whether gRPC status 0 came back.
async fn probe(connection: &mut UnixStream, stream: u8, authority: Vec<u8>) -> bool {
    // POST, http
    let mut headers = vec![0x83, 0x86];
    headers.extend(field(4, &["/csi.v1.Identity/Probe"]));
    headers.extend(authority);
    headers.extend(field(0x1f, &["application/grpc"]));
    headers.extend(field(0, &["te", "trailers"]));
    let mut bytes = frame(HEADERS, END_HEADERS, stream, &headers);
    bytes.extend(frame(DATA, END_STREAM, stream, &[0; 5]));
    connection
        .write_all(&bytes)
        .await
        .expect("an open connection");

    let mut data_seen = false;
    loop {
        let mut head = [0; 9];
        connection.read_exact(&mut head).await.expect("a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("a size")];
        connection
            .read_exact(&mut payload)
            .await
            .expect("a payload");
        match (head[3], head[4], head[8]) {
            (SETTINGS, 0, _) => {
                let ack = frame(SETTINGS, ACK, 0, &[]);
                connection
                    .write_all(&ack)
                    .await
                    .expect("an open connection");
            }
            (RST_STREAM, _, id) if id == stream => return false,
            (DATA, _, id) if id == stream => data_seen = true,
            (HEADERS, flags, id) if id == stream && flags & END_STREAM != 0 => return data_seen,
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_path_as_authority_is_accepted() {
    let served = Served::start();
    let mut connection = UnixStream::connect(served.endpoint.path()).await.unwrap();
    let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    hello.extend(frame(SETTINGS, 0, 0, &[]));
    connection.write_all(&hello).await.unwrap();

    let path = "/var/lib/kubelet/plugins/x/csi.sock";
    assert!(probe(&mut connection, 1, field(1, &[path])).await);
    // The second call names the header by its place in the table, which must hold the same on both sides:
    // three fields were added after it, and the newest has number 62.
    assert!(probe(&mut connection, 3, vec![0x80 + 65]).await);
    assert!(probe(&mut connection, 5, field(1, &["%2Fcsi%2Fcsi.sock"])).await);
    assert!(probe(&mut connection, 7, field(1, &["unix:///csi/csi.sock"])).await);
    assert!(probe(&mut connection, 9, field(1, &["localhost"])).await);
    // Go's encoder compresses: this is "/csi/csi.sock" in the Huffman code.
    let mut compressed = vec![0x41, 0x80 + 9];
    compressed.extend([0x60, 0x88, 0x33, 0x04, 0x41, 0x97, 0x41, 0xc9, 0xd7]);
    assert!(probe(&mut connection, 11, compressed).await);
    // What is no authority even then is still refused.
    assert!(!probe(&mut connection, 13, field(1, &["a b"])).await);
}
