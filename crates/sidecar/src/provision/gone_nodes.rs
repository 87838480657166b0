//! Journals of nodes that are gone, where every node has one: what is in them is reported, and they are deleted.
//!
//! Any node may do it, and one at a time does: whoever writes the time into the Lease `stowage-intents-<driver>`, which
//! is nobody's journal where every node has its own.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use stowage_kubernetes::answer::{self, Answer};
use stowage_kubernetes::events::Events;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::cluster::claim::claim_reference;
use crate::intent::Intent;
use crate::journal::{Abandoned, journal_name};
use crate::role::Context;

/// How often somebody looks.
const EVERY: Duration = Duration::from_secs(600);
/// At the start, nodes look at different times within this.
const AT_FIRST: Duration = Duration::from_secs(5);

/// Looks again and again, until `stop`.
pub(super) async fn watch(context: Context, stop: CancellationToken) {
    let Some(own) = &context.settings.own_node else {
        return;
    };
    let sweep = Sweep {
        client: context.client.clone(),
        events: context.events.clone(),
        namespace: context.journal.namespace().to_owned(),
        driver: context.driver.name().as_str().to_owned(),
        node: own.name.clone(),
    };
    let mut pause = AT_FIRST.mul_f64(fastrand::f64());
    while stop.run_until_cancelled(sleep(pause)).await.is_some() {
        let swept = stop.run_until_cancelled(sweep.take_turn()).await;
        if let Some(Err(error)) = swept {
            let reason = answer::chain(&error);
            tracing::warn!(
                reason,
                "Journals of nodes that are gone cannot be looked for."
            );
        }
        pause = EVERY.mul_f64(1.0 + fastrand::f64());
    }
}

struct Sweep {
    client: Client,
    events: Events,
    namespace: String,
    driver: String,
    /// Our own.
    node: String,
}

impl Sweep {
    /// Looks, unless somebody did lately. Called twice, or by two: one of them looks.
    async fn take_turn(&self) -> kube::Result<()> {
        if !self.is_our_turn().await? {
            return Ok(());
        }
        let leases = self.leases().list(&ListParams::default()).await?;
        for lease in leases {
            let Some(abandoned) = Abandoned::read(&lease, &self.driver, EVERY) else {
                continue;
            };
            if abandoned.node == self.node || self.exists(&abandoned.node).await? {
                continue;
            }
            self.clear_up(&lease, abandoned).await?;
        }
        Ok(())
    }

    async fn is_our_turn(&self) -> kube::Result<bool> {
        let (api, name) = (self.leases(), journal_name(&self.driver, None));
        let now = Timestamp::now();
        let found = api.get_opt(&name).await?;
        let looked = found
            .as_ref()
            .and_then(|lease| lease.spec.as_ref()?.renew_time.clone());
        let lately = |at: MicroTime| now.duration_since(at.0).unsigned_abs() < EVERY;
        if looked.is_some_and(lately) {
            return Ok(false);
        }
        let params = PostParams::default();
        let spec = LeaseSpec {
            holder_identity: Some(self.node.clone()),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        };
        let written = match found {
            Some(mut lease) => {
                lease.spec = Some(spec);
                api.replace(&name, &params, &lease).await
            }
            None => {
                let metadata = ObjectMeta {
                    name: Some(name),
                    ..ObjectMeta::default()
                };
                let lease = Lease {
                    metadata,
                    spec: Some(spec),
                };
                api.create(&params, &lease).await
            }
        };
        match written {
            Ok(_) => Ok(true),
            Err(error) if Answer::of(&error) == Answer::Conflict => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn exists(&self, node: &str) -> kube::Result<bool> {
        let api = Api::<Node>::all(self.client.clone());
        Ok(api.get_metadata_opt(node).await?.is_some())
    }

    /// Reports what is in the journal, and deletes it as it was read.
    async fn clear_up(&self, lease: &Lease, abandoned: Abandoned) -> kube::Result<()> {
        let (name, node) = (lease.name_any(), &abandoned.node);
        let intents = match abandoned.intents {
            Ok(intents) => intents,
            Err(error) => {
                let reason = answer::chain(&error);
                tracing::error!(
                    lease = name,
                    node,
                    reason,
                    "The journal of a node that is gone cannot be read, and is left alone."
                );
                return Ok(());
            }
        };
        for intent in &intents {
            self.report(intent, node);
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                resource_version: lease.resource_version(),
                uid: lease.uid(),
            }),
            ..DeleteParams::default()
        };
        match self.leases().delete(&name, &params).await {
            Ok(_) => tracing::info!(
                lease = name,
                node,
                intents = intents.len(),
                "The journal of a node that is gone was deleted."
            ),
            // Somebody was faster, or the node came back.
            Err(error) if matches!(Answer::of(&error), Answer::Conflict | Answer::Gone) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn report(&self, intent: &Intent, node: &str) {
        let (claim, volume) = (&intent.claim, &intent.volume);
        tracing::error!(
            namespace = claim.namespace,
            claim = claim.name,
            volume,
            node,
            "A volume may be left half made on a node that is gone."
        );
        let about = claim_reference(&claim.namespace, &claim.name, &claim.uid);
        let message = format!(
            "volume `{volume}` may be left half made on node `{node}`, which is gone: if the node's storage still \
             exists, delete the volume there"
        );
        self.events.warning(about, "IntentAbandoned", message);
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}
