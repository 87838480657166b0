//! What the sidecars of nodes tell about mounts, and the key with which they are asked.
//!
//! The operator keeps one random key in a Secret of its own namespace. Each instance has a key of its own, made from that one and the
//! instance's uid; node pods are given the SHA-256 of theirs. So nothing secret is on a node, nobody can ask who
//! was not told the key, and whoever listens on the network learns nothing with which to ask other drivers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus, Secret};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Error};
use reqwest::redirect::Policy;
use reqwest::{Response, StatusCode};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};
use stowage_api::mounts::{MountReport, PATH, PORT_FLAG, VolumeMount};
use stowage_kubernetes::answer::Answer;
use tokio::sync::OnceCell;

use crate::driver::sidecar::BUILTIN;

/// The Secret in the operator's own namespace.
pub const SECRET: &str = "csi-operator-mounts-key";
/// Its only field.
const FIELD: &str = "key";
/// Length of the key in bytes.
const LENGTH: usize = 32;
/// How long a sidecar may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Nodes have some hundred mounts; whoever tells more is not a sidecar.
const LONGEST_ANSWER: usize = 1 << 20;

/// Asks the sidecars of nodes.
#[derive(Clone)]
pub struct Mounts {
    secrets: Api<Secret>,
    key: Arc<OnceCell<hmac::Key>>,
}

/// The key of an instance.
#[derive(Clone)]
pub(crate) struct Key(String);

/// Why the key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// The API server does not give it out.
    #[error("cannot get Secret `{SECRET}` in the operator's namespace")]
    Unread(#[source] Error),
    /// Somebody changed it.
    #[error(
        "Secret `{SECRET}` in the operator's namespace has no field `{FIELD}` of {LENGTH} bytes or more: delete it, and it is made again"
    )]
    Invalid,
}

impl Mounts {
    /// `namespace`: the operator's own.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            secrets: Api::namespaced(client, namespace),
            key: Arc::default(),
        }
    }

    /// The key of an instance; `None` where the operator may not have one.
    pub(crate) async fn key_of(&self, uid: &str) -> Result<Option<Key>, KeyError> {
        match self.key.get_or_try_init(|| self.root()).await {
            Ok(root) => Ok(Some(Key::of(root, uid))),
            Err(KeyError::Unread(error)) if matches!(Answer::of(&error), Answer::Forbidden(_)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The key of all, made where there is none. Called twice, or by two at once: the first one stays.
    async fn root(&self) -> Result<hmac::Key, KeyError> {
        let secret = match self.secrets.get_opt(SECRET).await {
            Ok(Some(secret)) => secret,
            Ok(None) => match self.create().await {
                Err(error) if Answer::of(&error) == Answer::Conflict => {
                    self.secrets.get(SECRET).await.map_err(KeyError::Unread)?
                }
                created => created.map_err(KeyError::Unread)?,
            },
            Err(error) => return Err(KeyError::Unread(error)),
        };
        let field = secret.data.and_then(|mut data| data.remove(FIELD));
        let field = field.filter(|it| it.0.len() >= LENGTH);
        let field = field.ok_or(KeyError::Invalid)?;
        Ok(hmac::Key::new(hmac::HMAC_SHA256, &field.0))
    }

    async fn create(&self) -> Result<Secret, Error> {
        let mut key = [0; LENGTH];
        let filled = SystemRandom::new().fill(&mut key);
        filled.map_err(|_| Error::Service("the system has no random numbers".into()))?;
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(SECRET.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(
                FIELD.to_owned(),
                ByteString(key.to_vec()),
            )])),
            ..Secret::default()
        };
        self.secrets.create(&PostParams::default(), &secret).await
    }
}

impl Key {
    fn of(root: &hmac::Key, uid: &str) -> Self {
        Self(hex(hmac::sign(root, uid.as_bytes()).as_ref()))
    }

    /// What node pods are given.
    pub(crate) fn hash(&self) -> String {
        hex(&Sha256::digest(&self.0))
    }

    /// Asks the sidecar of a driver at this address what is mounted; why it does not tell, if it does not.
    pub(crate) async fn ask(
        &self,
        sidecar: SocketAddr,
        driver: &str,
    ) -> Result<Vec<VolumeMount>, String> {
        match self.report(sidecar).await? {
            report if report.driver == driver => Ok(report.mounts),
            report => Err(format!("{sidecar} is of {}", report.driver)),
        }
    }

    async fn report(&self, sidecar: SocketAddr) -> Result<MountReport, String> {
        let unanswered = |error: reqwest::Error| {
            let error = stowage_api::causes::chain(&error.without_url());
            format!("the sidecar at {sidecar} does not answer: {error}")
        };
        // Pods are never behind a proxy, and the key is for nobody else.
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none());
        let client = client.timeout(TIMEOUT).build().map_err(unanswered)?;
        let url = format!("http://{sidecar}{PATH}");
        let sent = client.get(url).bearer_auth(&self.0).send().await;
        let mut response = sent.map_err(unanswered)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => {
                return Err(format!("the sidecar at {sidecar} knows another key"));
            }
            status => return Err(format!("the sidecar at {sidecar} answers {status}")),
        }
        let body = body(&mut response).await.map_err(unanswered)?;
        serde_json::from_slice(&body)
            .map_err(|_| format!("the answer of the sidecar at {sidecar} is not a report"))
    }
}

/// Where the sidecar of a driver's pod tells what is mounted: as it was started, whatever is wanted now.
pub(crate) fn tells_at(pod: &Pod) -> Option<SocketAddr> {
    sidecar_of(pod.spec.as_ref()?, pod.status.as_ref()?)
}

/// The same for a pod of which only this is known.
pub(crate) fn sidecar_of(spec: &PodSpec, status: &PodStatus) -> Option<SocketAddr> {
    let mut containers = spec.containers.iter();
    let sidecar = containers.find(|it| it.name == BUILTIN)?;
    let args = sidecar.args.iter().flatten();
    let mut ports = args.filter_map(|it| it.strip_prefix(PORT_FLAG)?.strip_prefix('='));
    let port = ports.next()?.parse().ok()?;
    let ip = status.pod_ip.as_ref()?.parse().ok()?;
    Some(SocketAddr::new(ip, port))
}

async fn body(response: &mut Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > LONGEST_ANSWER {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instance_has_a_key_that_says_nothing_about_the_others() {
        let root = hmac::Key::new(hmac::HMAC_SHA256, &[7; LENGTH]);
        let keys = ["a", "b"].map(|uid| Key::of(&root, uid));
        assert_eq!(keys[0].0.len(), 64);
        assert_ne!(keys[0].0, keys[1].0);
        assert_eq!(
            keys[0].0,
            Key::of(&root, "a").0,
            "a restart changes nothing"
        );
        assert_ne!(keys[0].hash(), keys[0].0);
    }
}
