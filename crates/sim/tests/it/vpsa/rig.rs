//! An array, and a client that says only what it is told to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};

use reqwest::Method;
use serde_json::{Value, json};
use stowage_sim::iscsi::initiator::Login;
use stowage_sim::vpsa::{Array, Options};
use tempfile::TempDir;

pub struct Rig {
    pub array: Array,
    pub data: TempDir,
    http: reqwest::Client,
}

pub struct Reply {
    pub body: Value,
}

impl Reply {
    /// The fields of an answer that is a success.
    pub fn fields(&self) -> &Value {
        assert_eq!(self.code(), 0, "{}", self.body);
        &self.body["response"]
    }

    pub fn code(&self) -> i64 {
        match &self.body["response"]["status"] {
            Value::String(text) => text.parse().unwrap(),
            number => number.as_i64().unwrap(),
        }
    }
}

/// An address of this machine that no other test uses: all of 127/8 is ours, and portals have a fixed port.
pub fn own_address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [high, low] = u16::try_from(std::process::id() % 60_000)
        .unwrap()
        .to_be_bytes();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Ipv4Addr::new(127, 1 + high, low, number).into()
}

impl Rig {
    pub async fn start(change: impl FnOnce(&mut Options)) -> Self {
        stowage_service::client::install_crypto_provider();
        let data = tempfile::tempdir().unwrap();
        let mut options = Options::new(data.path());
        change(&mut options);
        let array = Array::start(options).await.unwrap();
        Self {
            array,
            data,
            http: reqwest::Client::new(),
        }
    }

    /// With ports for data.
    pub async fn with_data() -> Self {
        Self::start(|options| {
            options.no_data = false;
            options.address = vec![own_address()];
        })
        .await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path, Value::Null).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.call(Method::POST, path, body).await
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> Reply {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let url = format!("{}/{path}.json?{query}", self.array.url());
        let mut request = self
            .http
            .request(method, url)
            .header("X-Access-Key", self.array.access_key());
        if !body.is_null() {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        Reply {
            body: response.json().await.unwrap(),
        }
    }

    pub async fn volume(&self, name: &str, block: &str, gigabytes: u64) -> String {
        let body =
            json!({"name": name, "capacity": gigabytes, "pool": "pool-00010001", "block": block});
        let reply = self.post("volumes", body).await;
        reply.fields()["vol_name"].as_str().unwrap().to_owned()
    }

    pub async fn server(&self, name: &str, ip: &str) -> String {
        let body =
            json!({"display_name": name, "iscsi": ip, "iqn": format!("iqn.2026-01.test:{name}")});
        let reply = self.post("servers", body).await;
        reply.fields()["server_name"].as_str().unwrap().to_owned()
    }

    pub async fn attach(&self, server: &str, volume: &str, more: Value) {
        let mut body = json!({ "volume_name": volume });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.post(&format!("servers/{server}/volumes"), body)
            .await
            .fields();
    }

    pub async fn detach(&self, server: &str, volume: &str) {
        let body = json!({ "servers": server });
        self.post(&format!("volumes/{volume}/detach"), body)
            .await
            .fields();
    }

    /// What a node needs to log in with.
    pub async fn login(&self, name: &str) -> Login {
        let state = self.array.control().objects().await.unwrap();
        let status = self.array.control().status().await.unwrap();
        let vpsa = state.vpsa();
        Login {
            portal: SocketAddr::new(status.addresses[0], 3260),
            source: None,
            initiator: format!("iqn.2026-01.test:{name}"),
            target: status.target,
            chap: Some((vpsa.chap_user.clone(), vpsa.chap_secret.clone())),
        }
    }
}
