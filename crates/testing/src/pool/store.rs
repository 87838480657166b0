//! What an API server has stored, and how it is put back as it was: in etcd itself, so that nothing has a say in it, neither
//! finalizers nor the order in which kinds and their objects go. The API server learns of it as it learns of every change.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use devcluster::testing::{ApiServer, Store};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};

use super::connections;

/// How long a test's connections may outlive it, and how long the server may take to notice what was taken back.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(50);

/// A new server goes on writing for a moment.
const SETTLED: Duration = Duration::from_millis(500);

/// How long a server may judge by rules of admission that are gone: it reads some of them by a clock.
const RULES: Duration = Duration::from_secs(3);

/// What the server itself writes while it runs.
const ITS_OWN: [&str; 4] = [
    "/registry/masterleases/",
    "/registry/leases/kube-system/apiserver-",
    "/registry/leases/kube-system/kube-apiserver-",
    "compact_rev_key",
];

/// etcd takes no more in one request.
const AT_A_TIME: usize = 100;

type Result<T> = std::result::Result<T, String>;

/// Keys and values.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// A new server, and what it answers.
pub(super) struct Fresh {
    etcd: Client,
    client: Client,
    content: Content,
    groups: Vec<String>,
    namespaces: Vec<String>,
}

impl Fresh {
    /// Waits until a server that was just started has written what it writes by itself.
    pub(super) async fn of(server: &ApiServer) -> Result<Self> {
        let etcd = store_client(&server.store()).await?;
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).map_err(said)?;
        let client = client(kubeconfig).await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = content(&etcd).await?;
            tokio::time::sleep(SETTLED).await;
            let content = content(&etcd).await?;
            let namespaces = namespaces(&client).await?;
            let has_all = ["default", "kube-node-lease", "kube-public", "kube-system"];
            if before == content
                && has_all
                    .iter()
                    .all(|it| namespaces.iter().any(|is| is == it))
            {
                let groups = groups(&client).await?;
                return Ok(Self {
                    etcd,
                    client,
                    content,
                    groups,
                    namespaces,
                });
            }
            if Instant::now() > deadline {
                return Err("a new API server does not come to rest".to_owned());
            }
        }
    }

    /// Takes back all that was written since, and waits until the server answers as when it was new.
    pub(super) async fn restore(&self, server: &ApiServer) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        wait_until_alone(server, deadline).await?;
        let mut had_rules = false;
        let mut was_as_new = false;
        loop {
            let changes = self.changes(&content(&self.etcd).await?);
            let is_as_new = changes.is_empty()
                && groups(&self.client).await? == self.groups
                && namespaces(&self.client).await? == self.namespaces;
            // Twice: what was under way when its client was killed may be written only now.
            if is_as_new && was_as_new {
                tokio::time::sleep(if had_rules { RULES } else { Duration::ZERO }).await;
                return Ok(());
            }
            was_as_new = is_as_new;
            if Instant::now() > deadline {
                return Err(format!("{} keys come again and again", changes.len()));
            }
            had_rules |= changes.iter().any(is_rule);
            for some in changes.chunks(AT_A_TIME) {
                let body = json!({"success": some});
                ask(&self.etcd, "/v3/kv/txn", &body).await?;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What has to be written so that everything is as before.
    fn changes(&self, now: &Content) -> Vec<Value> {
        let new = now.keys().filter(|key| !self.content.contains_key(*key));
        let gone = new.map(|key| json!({"requestDeleteRange": {"key": STANDARD.encode(key)}}));
        let other = self
            .content
            .iter()
            .filter(|(key, value)| now.get(*key) != Some(value));
        let back = other.map(|(key, value)| {
            let (key, value) = (STANDARD.encode(key), STANDARD.encode(value));
            json!({"requestPut": {"key": key, "value": value}})
        });
        gone.chain(back).collect()
    }
}

/// Whether a change is one of rules that the server applies to what others write.
fn is_rule(change: &Value) -> bool {
    let key = &change["requestDeleteRange"]["key"];
    let key = STANDARD.decode(key.as_str().unwrap_or_default());
    let key = String::from_utf8_lossy(&key.unwrap_or_default()).into_owned();
    key.contains("admission") || key.contains("webhook")
}

/// Whoever is still connected could write again what is about to be taken back.
async fn wait_until_alone(server: &ApiServer, deadline: Instant) -> Result<()> {
    let known = [server.process().map_err(said)?, std::process::id()];
    let port = server.address(server.directory().to_owned()).port;
    loop {
        let others = connections::of_others(port, &known).map_err(said)?;
        if others == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("{others} connections have outlived their test"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn content(etcd: &Client) -> Result<Content> {
    let everything = STANDARD.encode([0]);
    let body = json!({"key": everything, "rangeEnd": everything});
    let answer = ask(etcd, "/v3/kv/range", &body).await?;
    let pairs = answer["kvs"].as_array().into_iter().flatten();
    let decoded = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        STANDARD.decode(text).map_err(said)
    };
    let mut content = Content::new();
    for pair in pairs {
        let key = decoded(&pair["key"])?;
        if !ITS_OWN.iter().any(|its| key.starts_with(its.as_bytes())) {
            content.insert(key, decoded(&pair["value"])?);
        }
    }
    Ok(content)
}

async fn groups(client: &Client) -> Result<Vec<String>> {
    let groups = client.list_api_groups().await.map_err(said)?.groups;
    let mut names: Vec<_> = groups.into_iter().map(|group| group.name).collect();
    names.sort();
    Ok(names)
}

async fn namespaces(client: &Client) -> Result<Vec<String>> {
    // From its cache: what it has not noticed yet is still there.
    let from_cache = ListParams::default().match_any();
    let all = Api::<Namespace>::all(client.clone())
        .list_metadata(&from_cache)
        .await;
    let mut names: Vec<_> = all
        .map_err(said)?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    names.sort();
    Ok(names)
}

async fn store_client(store: &Store) -> Result<Client> {
    let kubeconfig = json!({
        "current-context": "etcd",
        "clusters": [{"name": "etcd", "cluster": {"server": store.url, "certificate-authority": store.authority}}],
        "users": [{"name": "etcd", "user": {
            "client-certificate": store.client.certificate,
            "client-key": store.client.key,
        }}],
        "contexts": [{"name": "etcd", "context": {"cluster": "etcd", "user": "etcd"}}],
    });
    client(serde_json::from_value(kubeconfig).map_err(said)?).await
}

async fn client(kubeconfig: Kubeconfig) -> Result<Client> {
    // Once for the process; the second attempt finds it done.
    drop(rustls::crypto::ring::default_provider().install_default());
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.map_err(said)?).map_err(said)
}

async fn ask(etcd: &Client, path: &str, body: &Value) -> Result<Value> {
    let request = http::Request::post(path).body(body.to_string().into_bytes());
    etcd.request(request.map_err(said)?).await.map_err(said)
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}
