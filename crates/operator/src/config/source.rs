//! Where the configuration comes from, and how a change of it is noticed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use stowage_kubernetes::answer;
use tokio::sync::watch;

use super::{ConfigError, OperatorConfig};

/// The key of a ConfigMap that holds the file.
const KEY: &str = "config.yaml";
/// How often a file is looked at: a file in a volume has no watch that sees every kind of replacement.
const FILE_PERIOD: Duration = Duration::from_secs(5);

/// Where the configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// Nowhere: the defaults.
    Defaults,
    /// A file.
    File(PathBuf),
    /// A ConfigMap. One that is not there is the defaults.
    ConfigMap {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Why there is no configuration at the start.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The content is wrong.
    #[error(transparent)]
    Content(#[from] ConfigError),
    /// The file is not there, or may not be read.
    #[error("the configuration file `{}` cannot be read: check --config", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The ConfigMap may not be read.
    #[error("the ConfigMap `{namespace}/{name}` with the operator's configuration cannot be read")]
    ConfigMap {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What the server says.
        source: Box<kube::Error>,
    },
}

impl ConfigSource {
    /// Reads the configuration once. At the start a wrong one is an error.
    pub async fn load(&self, client: &Client) -> Result<OperatorConfig, LoadError> {
        match self {
            Self::Defaults => Ok(OperatorConfig::default()),
            Self::File(path) => Ok(OperatorConfig::parse(&read(path)?)?),
            Self::ConfigMap { namespace, name } => {
                let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
                let found = api.get_opt(name).await;
                let found = found.map_err(|source| LoadError::ConfigMap {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    source: Box::new(source),
                })?;
                Ok(OperatorConfig::parse(text_of(found.as_ref()))?)
            }
        }
    }

    /// Passes changes on. Never ends. A wrong configuration is reported and the one before it stays in use.
    pub async fn follow(&self, client: Client, config: &watch::Sender<OperatorConfig>) {
        match self {
            Self::Defaults => std::future::pending().await,
            Self::File(path) => loop {
                tokio::time::sleep(FILE_PERIOD).await;
                match read(path) {
                    Ok(text) => take(&text, config),
                    Err(error) => {
                        let error = answer::chain(&error);
                        tracing::error!(error, "The configuration stays as it was.");
                    }
                }
            },
            Self::ConfigMap { namespace, name } => {
                let api = Api::<ConfigMap>::namespaced(client, namespace);
                let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
                let mut events = watcher(api, only).default_backoff().boxed();
                while let Some(event) = events.next().await {
                    match event {
                        Ok(watcher::Event::Apply(map) | watcher::Event::InitApply(map)) => {
                            take(text_of(Some(&map)), config);
                        }
                        Ok(watcher::Event::Delete(_)) => take("", config),
                        Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
                        Err(error) => {
                            let error = answer::chain(&error);
                            tracing::warn!(
                                error,
                                "The watch of the configuration was interrupted and is started again."
                            );
                        }
                    }
                }
            }
        }
    }
}

fn read(path: &Path) -> Result<String, LoadError> {
    fs::read_to_string(path).map_err(|source| LoadError::File {
        path: path.to_owned(),
        source,
    })
}

fn text_of(map: Option<&ConfigMap>) -> &str {
    let data = map.and_then(|map| map.data.as_ref());
    data.and_then(|data| data.get(KEY))
        .map_or("", String::as_str)
}

fn take(text: &str, config: &watch::Sender<OperatorConfig>) {
    match OperatorConfig::parse(text) {
        Ok(new) => {
            let changed = config.send_if_modified(|old| {
                let changed = *old != new;
                *old = new;
                changed
            });
            if changed {
                tracing::info!("The configuration has changed.");
            }
        }
        Err(error) => tracing::error!(%error, "The configuration stays as it was."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_configuration_leaves_the_one_before_it_in_use() {
        let (sender, receiver) = watch::channel(OperatorConfig::default());
        take("deploymentReplicas: 2", &sender);
        assert_eq!(receiver.borrow().replicas(), 2);
        take("deploymentReplicas: many", &sender);
        assert_eq!(receiver.borrow().replicas(), 2);
        take("", &sender);
        assert_eq!(receiver.borrow().replicas(), 1);
    }

    #[test]
    fn the_same_configuration_is_no_change() {
        let (sender, mut receiver) = watch::channel(OperatorConfig::default());
        receiver.mark_unchanged();
        take("{}", &sender);
        assert!(!receiver.has_changed().unwrap());
    }
}
