//! What the operator may see.
//!
//! A watch that the server refuses says so only in the log, and decisions on half the facts are wrong. So the server is
//! asked for every right to look at something: once at the start, and again whenever a watch is refused. What is
//! missing shows in readiness, in metrics and on every instance, until somebody grants it.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::runtime::watcher;
use stowage_kubernetes::answer::{self, Answer};
use stowage_kubernetes::rights::Right;
use stowage_service::health::Check;
use tokio::sync::{Notify, watch};

use crate::changes::changes;
use crate::driver::rbac;
use crate::metrics::OperatorMetrics;

/// How soon to ask again while something is missing: nobody can watch for a role that may not be read.
const AGAIN: Duration = Duration::from_secs(5);
/// Requests at a time.
const CONCURRENCY: usize = 8;

/// The rights that are missing. Clones share them.
#[derive(Clone, Debug)]
pub struct Rights {
    missing: watch::Sender<Vec<Right>>,
    recheck: Arc<Notify>,
}

impl Default for Rights {
    fn default() -> Self {
        Self {
            missing: watch::Sender::new(Vec::new()),
            recheck: Arc::default(),
        }
    }
}

impl Rights {
    /// Keeps them current, and says so in readiness and metrics. Never ends.
    pub async fn keep(&self, client: Client, check: &Check, metrics: &OperatorMetrics) {
        loop {
            let is_complete = match missing(&client).await {
                Ok(missing) => {
                    metrics.missing_rights(&missing);
                    self.replace(missing, check)
                }
                Err(error) => {
                    let error = answer::chain(&error);
                    tracing::warn!(error, "The rights of the operator cannot be checked.");
                    false
                }
            };
            if is_complete {
                self.recheck.notified().await;
            } else {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Takes over what is missing now; whether that is nothing.
    fn replace(&self, missing: Vec<Right>, check: &Check) -> bool {
        let is_news = self.missing.send_if_modified(|known| {
            let is_news = *known != missing;
            *known = missing;
            is_news
        });
        let Some(missing) = self.message() else {
            check.ready();
            if is_news {
                tracing::info!("The operator has all rights that it needs.");
            }
            return true;
        };
        check.not_ready(&missing);
        if is_news {
            tracing::error!(missing, "The operator lacks rights, and waits for them.");
        }
        false
    }

    /// What is missing, in a sentence, if anything is.
    pub fn message(&self) -> Option<String> {
        let missing = self.missing.borrow();
        let listed: Vec<_> = missing.iter().map(Right::to_string).collect();
        (!listed.is_empty()).then(|| {
            format!(
                "the operator's account may not {}: apply `deploy/prerequisites`, which grants it",
                listed.join(", ")
            )
        })
    }

    /// A watch was refused: something may be missing that was there.
    pub(crate) fn recheck_if_forbidden(&self, error: &watcher::Error) {
        if matches!(Answer::of_watch(error), Answer::Forbidden(_)) {
            self.recheck.notify_one();
        }
    }

    /// One item for each change.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        changes(self.missing.subscribe())
    }
}

async fn missing(client: &Client) -> Result<Vec<Right>, kube::Error> {
    let asked = stream::iter(rbac::rights_to_look()).map(|right| async move {
        let is_granted = right.is_granted(client).await?;
        Ok::<_, kube::Error>((!is_granted).then_some(right))
    });
    let answers: Vec<_> = asked.buffered(CONCURRENCY).try_collect().await?;
    Ok(answers.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_each_rule() {
        let rights = Rights::default();
        assert_eq!(rights.message(), None);
        let right = |group, resource, verb| Right {
            group,
            resource,
            verb,
        };
        rights.missing.send_replace(vec![
            right("", "pods", "list"),
            right("apps", "daemonsets", "watch"),
        ]);
        let expected = "the operator's account may not list pods, watch daemonsets.apps: apply \
                        `deploy/prerequisites`, which grants it";
        assert_eq!(rights.message().as_deref(), Some(expected));
    }
}
