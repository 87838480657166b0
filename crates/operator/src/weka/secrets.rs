//! Whether the secrets are there with which drivers reach their clusters.
//!
//! Each is watched by its name alone, so that a Role in its namespace is enough. What is in it is looked at and not kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use stowage_kubernetes::answer::Answer;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::problem::{Problem, Reason};

/// What a secret must have.
const REQUIRED: [&str; 4] = ["username", "password", "endpoints", "scheme"];

/// Namespace and name.
pub type SecretName = (String, String);

/// What is known about a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Not looked at yet.
    Unknown,
    /// There is none.
    Missing,
    /// These keys are missing or empty.
    Incomplete(Vec<&'static str>),
    /// It has what it needs.
    Complete,
    /// The operator may not see it.
    Forbidden,
}

impl Finding {
    fn of(secret: &Secret) -> Self {
        let data = secret.data.clone().unwrap_or_default();
        let is_given = |key: &&str| data.get(*key).is_some_and(|value| !value.0.is_empty());
        let missing: Vec<_> = REQUIRED.into_iter().filter(|key| !is_given(key)).collect();
        if missing.is_empty() {
            Self::Complete
        } else {
            Self::Incomplete(missing)
        }
    }

    /// What is wrong, and what to do.
    pub fn problem(&self, (namespace, name): &SecretName) -> Option<Problem> {
        let (reason, message) = match self {
            Self::Unknown | Self::Complete => return None,
            Self::Missing => (
                Reason::SecretMissing,
                format!(
                    "secret `{name}` does not exist in namespace `{namespace}`: create it with the keys {}",
                    REQUIRED.join(", ")
                ),
            ),
            Self::Incomplete(keys) => (
                Reason::SecretIncomplete,
                format!(
                    "secret `{name}` in namespace `{namespace}` lacks {}: add it",
                    keys.join(", ")
                ),
            ),
            Self::Forbidden => (
                Reason::SecretForbidden,
                format!(
                    "the operator may not watch secret `{name}` in namespace `{namespace}`: grant it with the Role of \
                     `deploy/weka/secrets.yaml` in that namespace"
                ),
            ),
        };
        Some(Problem::new(reason, message))
    }
}

/// The secrets that are watched. Clones share them.
#[derive(Clone)]
pub struct Secrets {
    client: Client,
    watched: Arc<Mutex<BTreeMap<SecretName, Watch>>>,
    tell: Arc<dyn Fn() + Send + Sync>,
}

struct Watch {
    finding: Finding,
    _ends: DropGuard,
}

impl Secrets {
    /// None yet. `tell` is called when something about one of them changes.
    pub fn new(client: Client, tell: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            client,
            watched: Arc::default(),
            tell: Arc::new(tell),
        }
    }

    /// Watches these and no others. Called twice: the second time changes nothing.
    pub fn watch_only(&self, wanted: &BTreeSet<SecretName>) {
        let mut watched = self.watched.lock();
        watched.retain(|name, _| wanted.contains(name));
        for name in wanted {
            watched.entry(name.clone()).or_insert_with(|| {
                let stop = CancellationToken::new();
                let (secrets, name, ended) = (self.clone(), name.clone(), stop.clone());
                tokio::spawn(async move {
                    ended.run_until_cancelled(secrets.follow(name)).await;
                });
                Watch {
                    finding: Finding::Unknown,
                    _ends: stop.drop_guard(),
                }
            });
        }
    }

    /// What is known about a secret.
    pub fn finding(&self, name: &SecretName) -> Finding {
        let watched = self.watched.lock();
        let found = watched.get(name).map(|it| it.finding.clone());
        found.unwrap_or(Finding::Unknown)
    }

    async fn follow(&self, name: SecretName) {
        let api = Api::<Secret>::namespaced(self.client.clone(), &name.0);
        let only = watcher::Config::default().fields(&format!("metadata.name={}", name.1));
        let mut events = watcher(api, only).default_backoff().boxed();
        let mut is_listed = false;
        while let Some(event) = events.next().await {
            let finding = match event {
                Ok(watcher::Event::Init) => {
                    is_listed = false;
                    continue;
                }
                Ok(watcher::Event::InitApply(secret)) => {
                    is_listed = true;
                    Finding::of(&secret)
                }
                Ok(watcher::Event::Apply(secret)) => Finding::of(&secret),
                Ok(watcher::Event::InitDone) if is_listed => continue,
                Ok(watcher::Event::InitDone | watcher::Event::Delete(_)) => Finding::Missing,
                Err(error) if matches!(Answer::of_watch(&error), Answer::Forbidden(_)) => {
                    Finding::Forbidden
                }
                Err(_) => continue,
            };
            self.take(&name, &finding);
        }
    }

    fn take(&self, name: &SecretName, finding: &Finding) {
        let mut watched = self.watched.lock();
        let Some(watch) = watched.get_mut(name) else {
            return;
        };
        if std::mem::replace(&mut watch.finding, finding.clone()) != *finding {
            drop(watched);
            (self.tell)();
        }
    }
}
