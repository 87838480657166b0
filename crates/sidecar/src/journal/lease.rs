//! The Lease that holds a journal: read, created, updated. Never patched: upstream's roles allow no more.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use stowage_api::intents::{CONTENT, DRIVER, NODE};
use stowage_kubernetes::answer::{Answer, chain};
use tokio::time::timeout;

use super::document::Unreadable;
use super::entries::Entries;
use super::{JournalError, Place};

/// After this a request is given up. It may have had its effect: the next one finds out.
const PATIENCE: Duration = Duration::from_secs(10);

/// The Lease, as last seen.
pub(super) struct IntentLease {
    api: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    driver: String,
    node: Option<String>,
    seen: Option<Lease>,
}

impl fmt::Display for IntentLease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

impl IntentLease {
    pub(super) fn new(client: Client, place: Place<'_>) -> Self {
        let own = |text: &str| text.to_owned();
        Self {
            api: Api::namespaced(client, place.namespace),
            namespace: own(place.namespace),
            name: own(place.name),
            identity: own(place.identity),
            driver: own(place.driver),
            node: place.node.map(own),
            seen: None,
        }
    }

    /// Looks at it; says whether it is another one than before.
    pub(super) async fn read(&mut self) -> Result<bool, JournalError> {
        let before = self.version();
        let answer = in_time(self.api.get_opt(&self.name)).await;
        self.seen = answer.map_err(|failure| self.explain("get", &failure))?;
        Ok(self.version() != before)
    }

    /// Writes the content with us as the holder, to the Lease as last seen. `None`: it is another one by now, or
    /// none at all.
    pub(super) async fn write(&mut self, content: &str) -> Result<Option<()>, JournalError> {
        let lease = self.with(content);
        let parameters = PostParams::default();
        let (verb, answer) = if self.seen.is_some() {
            let replacing = self.api.replace(&self.name, &parameters, &lease);
            ("update", in_time(replacing).await)
        } else {
            let creating = self.api.create(&parameters, &lease);
            ("create", in_time(creating).await)
        };
        match answer {
            Ok(written) => {
                self.seen = Some(written);
                Ok(Some(()))
            }
            Err(failure) => match failure.answer() {
                Answer::Conflict => Ok(None),
                // Where a Lease cannot be made, it is the namespace that is not found.
                Answer::Gone if verb == "update" => Ok(None),
                _ => Err(self.explain(verb, &failure)),
            },
        }
    }

    fn with(&self, content: &str) -> Lease {
        let now = MicroTime(Timestamp::now());
        let mut lease = self.seen.clone().unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(CONTENT.to_owned(), content.to_owned());
        annotations.insert(DRIVER.to_owned(), self.driver.clone());
        // What is left of a node that is gone is found by it.
        if let Some(node) = &self.node {
            annotations.insert(NODE.to_owned(), node.clone());
        }
        lease.metadata.managed_fields = None;
        let taken = self.holder() != Some(&self.identity);
        let spec = lease.spec.get_or_insert_default();
        if taken {
            spec.acquire_time = Some(now.clone());
            spec.holder_identity = Some(self.identity.clone());
        }
        spec.renew_time = Some(now);
        lease
    }

    /// The content as last seen.
    pub(super) fn content(&self) -> Option<&str> {
        let annotations = self.seen.as_ref()?.metadata.annotations.as_ref()?;
        annotations.get(CONTENT).map(String::as_str)
    }

    /// The content as last seen, read.
    pub(super) fn entries(&self) -> Result<Entries, JournalError> {
        Entries::read(self.content()).map_err(|error| self.unreadable(error))
    }

    /// Who has it, if that is not us.
    pub(super) fn other_holder(&self) -> Option<String> {
        let holder = self.holder().filter(|holder| *holder != self.identity);
        holder.map(str::to_owned)
    }

    fn holder(&self) -> Option<&str> {
        let spec: &LeaseSpec = self.seen.as_ref()?.spec.as_ref()?;
        let holder = spec.holder_identity.as_deref();
        holder.filter(|holder| !holder.is_empty())
    }

    fn version(&self) -> Option<String> {
        self.seen.as_ref()?.metadata.resource_version.clone()
    }

    fn unreadable(&self, error: Unreadable) -> JournalError {
        let Self {
            namespace, name, ..
        } = self;
        let remedy = match &error {
            Unreadable::Version(_) => {
                "Run the program that wrote it with --resolve-intents-and-exit first".to_owned()
            }
            _ => format!(
                "Save it with `kubectl -n {namespace} get lease {name} -o yaml`, repair the annotation {CONTENT}, or \
                 compare the driver's volumes with the cluster's by hand and then delete the Lease"
            ),
        };
        JournalError::Unreadable {
            lease: self.to_string(),
            remedy,
            source: Arc::new(error),
        }
    }

    fn explain(&self, verb: &'static str, failure: &Failure) -> JournalError {
        if let Answer::Forbidden(said) = failure.answer() {
            return JournalError::Forbidden {
                verb,
                namespace: self.namespace.clone(),
                said: said.to_owned(),
            };
        }
        JournalError::Unreachable {
            lease: self.to_string(),
            said: match failure {
                Failure::Request(error) => chain(error),
                Failure::Silence => "the API server does not answer".to_owned(),
            },
        }
    }
}

/// A Lease, for Events.
pub(super) fn reference(namespace: &str, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("coordination.k8s.io/v1".to_owned()),
        kind: Some("Lease".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

enum Failure {
    Request(kube::Error),
    Silence,
}

impl Failure {
    fn answer(&self) -> Answer<'_> {
        match self {
            Self::Request(error) => Answer::of(error),
            Self::Silence => Answer::Unavailable,
        }
    }
}

async fn in_time<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match timeout(PATIENCE, request).await {
        Ok(answer) => answer.map_err(Failure::Request),
        Err(_) => Err(Failure::Silence),
    }
}
