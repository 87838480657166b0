//! Servers that say what they are told to.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};

/// From path and query to code and body.
pub type Answer = fn(&str) -> (u16, Value);

fn answer_one(mut stream: TcpStream, answer: Answer) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    while lines
        .next()
        .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
    {}
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (code, body) = answer(path);
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// Starts a server for the rest of the test process and returns its address.
pub fn serve(answer: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that hangs up is the client's affair; the test sees what it prints.
            _ = answer_one(stream, answer);
        }
    });
    format!("http://{address}")
}

/// What `/version` says.
pub fn version(minor: &str) -> Value {
    json!({
        "major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.2"), "gitCommit": "",
        "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
    })
}

/// One driver, and two nodes on two pages.
pub fn healthy(path: &str) -> (u16, Value) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let items = match path {
        "/version" => return (200, version("20")),
        "/apis/storage.k8s.io/v1/csidrivers" => json!([
            {"metadata": {"name": "d.example.com"}, "spec": {"attachRequired": false}},
        ]),
        "/api/v1/nodes" if query.contains("continue=more") => json!([{"metadata": {"name": "n2"}}]),
        "/api/v1/nodes" => {
            let first = json!([{"metadata": {"name": "n1"}}]);
            return (
                200,
                json!({"metadata": {"continue": "more"}, "items": first}),
            );
        }
        _ => json!([]),
    };
    (200, json!({"metadata": {}, "items": items}))
}

/// Like [`healthy`], but nodes and CSINodes may not be listed.
pub fn refusing(path: &str) -> (u16, Value) {
    let denied = ["nodes", "csinodes"]
        .into_iter()
        .find(|resource| path.contains(&format!("/{resource}?")));
    match denied {
        Some(resource) => {
            let message = format!(
                r#"{resource} is forbidden: User "viewer" cannot list resource "{resource}""#
            );
            (
                403,
                json!({"code": 403, "reason": "Forbidden", "message": message}),
            )
        }
        None => healthy(path),
    }
}

/// Starts a TLS server whose certificate is signed by nobody, and returns its address.
pub fn serve_untrusted() -> String {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![cert.der().clone()],
            PrivatePkcs8KeyDer::from(signing_key.serialize_der()).into(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            // The client is expected to break off.
            _ = session.complete_io(&mut stream);
        }
    });
    server
}
