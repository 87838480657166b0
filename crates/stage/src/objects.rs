//! Objects made, and whatever else waited for.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stowage_service::client;
use tokio::time::{Instant, timeout};

/// Longer than anything in a test takes, shorter than a person's patience.
pub const SOON: Duration = Duration::from_secs(30);

/// A client of this kubeconfig.
pub async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    client::connect(config.unwrap()).unwrap()
}

/// Makes an object.
pub async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: DeserializeOwned + Serialize + Clone + Debug,
{
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

/// Adds `more` to an object, or replaces what it has.
pub fn merge(object: &mut Value, more: Value) {
    match (object, more) {
        (Value::Object(object), Value::Object(more)) => {
            for (key, value) in more {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, more) => *object = more,
    }
}

/// Waits until `look` finds something.
pub async fn eventually<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let give_up = Instant::now() + SOON;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < give_up, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until something is so.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    eventually(what, async || is_so().then_some(())).await;
}

/// Waits for something that does not take long.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    let ended = timeout(SOON, future).await;
    ended.unwrap_or_else(|_| panic!("not within {SOON:?}"))
}
