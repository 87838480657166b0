//! Nothing that is shown to anybody holds a secret.

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use secrecy::SecretString;
use stowage_sim::vpsa::control::trouble::Own;
use stowage_vpsa::rest::api::{Chap, NewServer};
use tracing_subscriber::fmt::MakeWriter;

use crate::rest::rig::Rig;

const KEY: &str = "VERYSECRETKEY-77";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn neither_logs_nor_errors_nor_debug_show_a_secret() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    // For all threads: others that log first would have it forgotten for this one that anybody listens.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let rig = Rig::with(|options| options.access_key = KEY.to_owned()).await;
    let api = rig.api();
    let secret = SecretString::from("chapchapchap");
    let new = NewServer {
        display_name: "node",
        ip: Some("10.0.0.7"),
        iqn: None,
        chap: Some(Chap {
            user: "user",
            secret: &secret,
        }),
    };
    let mut shown = format!("{new:?} {:?}", rig.client);
    let made = api.create_server(&new).await.unwrap();
    shown += &format!("{made:?} {:?}", api.servers().await.unwrap());
    shown += &format!("{:?}", api.vcontrollers().await.unwrap());
    let echo = Own::Say {
        status: 7,
        message: format!("key {KEY} is odd"),
    };
    rig.fault("GET", "pools", 1, echo).await;
    shown += &format!("{0} {0:?}", api.pools().await.unwrap_err());
    rig.array.control().stop_endpoint(0).await.unwrap();
    shown += &format!("{0} {0:?}", api.pools().await.unwrap_err());
    let logged = String::from_utf8(log.0.lock().clone()).unwrap();
    assert!(
        logged.contains("Answered."),
        "the log was not seen: {logged}"
    );
    for secret in [KEY, "chapchapchap"] {
        assert!(!shown.contains(secret), "{shown}");
        assert!(!logged.contains(secret), "{logged}");
    }
}
