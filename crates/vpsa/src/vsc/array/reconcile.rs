//! Does the steps.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use serde_json::Value;
use stowage_api::causes::chain;
use stowage_api::vpsa::{ExternalVolume, MANAGE_EXTERNAL_VOLUMES, Vpsa, VpsaState};
use stowage_kubernetes::events::Events;
use stowage_kubernetes::json_patch::ObjectPatch;
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::queue::Verdict;

use super::facts::Facts;
use super::import;
use super::status::status;
use super::step::{Desired, Observed, Step, Trouble, next_step};
use crate::rest::Api;
use crate::vsc::cipher::{Cipher, CipherError, Held, Place};
use crate::vsc::clients::{Clients, TOKEN_FIELD};
use crate::vsc::cluster::{Cluster, on_array};
use crate::vsc::condition::{self, Reason};
use crate::vsc::write::{Writer, is_held};

/// Keeps VPSAs.
pub struct Arrays {
    /// What is known.
    pub cluster: Arc<Cluster>,
    /// Clients of arrays.
    pub clients: Arc<Clients>,
    /// Writes objects.
    pub writer: Writer,
    /// Tells people.
    pub events: Events,
    /// For secrets.
    pub cipher: Arc<Cipher>,
    /// How long apart an array is looked at.
    pub interval: Duration,
    /// How long an array may take for one look.
    pub patience: Duration,
    /// Whether what is there is imported without being asked for.
    pub import: bool,
}

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The API server.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A secret.
    #[error(transparent)]
    Cipher(#[from] CipherError),
    /// The array.
    #[error(transparent)]
    Array(#[from] Trouble),
}

/// What is known of an array in the course of one look at it.
#[derive(Default)]
struct Look {
    facts: Option<Result<Facts, Trouble>>,
    api: Option<Api>,
    imported: bool,
}

impl Arrays {
    /// Does what is to be done for one array.
    pub async fn reconcile(&self, name: &str) -> Verdict {
        let Some(kept) = self.cluster.arrays.store().get(name) else {
            self.clients.forget(name);
            return Verdict::Done;
        };
        match self.work(kept.object.clone()).await {
            Ok(verdict) => verdict,
            // Somebody else was faster: what they wrote comes with the watch.
            Err(StepError::Object(error)) if error.is_stale() => {
                Verdict::After(Duration::from_millis(200), None)
            }
            Err(error) => {
                let text = chain(&error);
                tracing::warn!(vpsa = name, error = text, "Trying again.");
                Verdict::Retry(text)
            }
        }
    }

    async fn work(&self, mut array: Vpsa) -> Result<Verdict, StepError> {
        let mut look = Look::default();
        let mut last = None;
        loop {
            let step = self.next(&array, &look);
            match &step {
                Step::Rest => return Ok(Verdict::Done),
                Step::Ask => {
                    self.ask(&array, &mut look).await;
                    continue;
                }
                Step::Import => {
                    self.import(&array, &look).await?;
                    look.imported = true;
                    continue;
                }
                // It is said already, and nothing follows from it.
                Step::Record(state, reason) if last.as_ref() == Some(&step) => {
                    return Ok(self.verdict(state, reason));
                }
                Step::Record(state, reason) => self.record(&array, state, reason, &look).await?,
                Step::Hold => self.writer.hold(&array).await?,
                Step::Conceal => self.conceal(&array).await?,
                Step::LetGo => {
                    self.writer.let_go(&array).await?;
                    return Ok(Verdict::Done);
                }
            }
            last = Some(step);
            match self.writer.read(&array.name_any()).await? {
                Some(now) => array = now,
                None => return Ok(Verdict::Done),
            }
        }
    }

    fn next(&self, array: &Vpsa, look: &Look) -> Step {
        let class_name = array.spec.vsc_storage_class_name.as_str();
        let class = self.cluster.classes.store().get(class_name);
        let class = class.filter(|it| it.object.metadata.deletion_timestamp.is_none());
        let annotation = array.annotations().get(MANAGE_EXTERNAL_VOLUMES);
        let desired = Desired {
            deleting: array.metadata.deletion_timestamp.is_some(),
            class: class.as_ref().map(|it| it.object.spec.pool_name.as_deref()),
            class_name,
            import: self.import || annotation.is_some_and(|value| !value.is_empty()),
        };
        let observed = Observed {
            held: is_held(array),
            plain_token: self.plain_token(array).is_some(),
            recorded: array.status.as_ref().map(|status| &status.state),
            users: self.cluster.users(&array.name_any()),
            array: look.facts.as_ref().map(Result::as_ref),
            imported: look.imported,
        };
        next_step(&desired, &observed)
    }

    async fn ask(&self, array: &Vpsa, look: &mut Look) {
        let facts = async {
            let client = self.clients.client(array).await?;
            let api = client.within(self.patience);
            let facts = Facts::ask(&api).await?;
            look.api = Some(api);
            Ok(facts)
        };
        look.facts = Some(facts.await);
    }

    /// The token, if it is not encrypted.
    fn plain_token(&self, array: &Vpsa) -> Option<secrecy::SecretString> {
        let name = array.name_any();
        match self
            .cipher
            .read(array.spec.token.as_ref()?, token_of(&name))
        {
            Ok(Held::Plain(token)) => Some(token),
            _ => None,
        }
    }

    /// Called twice: it is encrypted.
    async fn conceal(&self, array: &Vpsa) -> Result<(), StepError> {
        let (Some(token), Some(written)) = (self.plain_token(array), &array.spec.token) else {
            return Ok(());
        };
        let concealed = self.cipher.encrypt(&token, token_of(&array.name_any()))?;
        let field = ["spec", "token"];
        let patch = ObjectPatch::new()
            .test(field, Value::from(written.expose()))
            .set(field, Value::from(concealed.expose()));
        Ok(self.writer.change(array, patch).await?)
    }

    /// Makes a record for each volume that has none. Called twice: all have one.
    async fn import(&self, array: &Vpsa, look: &Look) -> Result<(), StepError> {
        let Some(api) = &look.api else {
            return Ok(());
        };
        let (name, class) = (array.name_any(), &array.spec.vsc_storage_class_name);
        let known = self.known_volumes(&name);
        for volume in api.volumes().await.map_err(Trouble::from)? {
            let is_ours = self.is_ours(&volume.display_name);
            if is_ours || known.contains(&volume.id.to_string()) {
                continue;
            }
            let record = import::record(&name, class, &volume);
            self.writer.create(&record).await?;
            let made: Option<ExternalVolume> = self.writer.read(&record.name_any()).await?;
            // The record of another volume whose name differs in letters that objects cannot have.
            if let Some(made) = made.filter(|it| it.status.is_none()) {
                self.writer.set_status(&made, &record.status).await?;
            }
        }
        Ok(())
    }

    /// The volumes of an array that have an object.
    fn known_volumes(&self, array: &str) -> std::collections::HashSet<String> {
        let group = on_array(array);
        let own = self.cluster.volumes.store().in_group(&group);
        let others = self.cluster.external_volumes.store().in_group(&group);
        let own = own.iter().filter_map(|it| it.object.status.as_ref());
        let others = others.iter().filter_map(|it| it.object.status.as_ref());
        own.chain(others).map(|status| status.id.clone()).collect()
    }

    /// Whether a Volume has this name on the array: it may not know its identity there yet.
    fn is_ours(&self, display_name: &str) -> bool {
        let volumes = self.cluster.volumes.store();
        // Almost always the name of the object, too.
        volumes.get(display_name).is_some()
            || volumes
                .all()
                .iter()
                .any(|it| it.object.spec.display_name == display_name)
    }

    /// Says how an array is, if that is news. Called twice: it is said.
    async fn record(
        &self,
        array: &Vpsa,
        state: &VpsaState,
        reason: &Reason,
        look: &Look,
    ) -> Result<(), StepError> {
        let before = array.status.clone().unwrap_or_default();
        let facts = look.facts.as_ref().and_then(|facts| facts.as_ref().ok());
        let name = array.name_any();
        let mut now = status(&before, &name, state.clone(), facts, &self.cipher)?;
        let (generation, moment) = (array.metadata.generation, Timestamp::now());
        now.observed = condition::observed(&before.observed, generation, reason, moment);
        if array.status.as_ref() == Some(&now) {
            return Ok(());
        }
        self.writer.set_status(array, &now).await?;
        let word = condition::ready(&before.observed).map(|it| it.reason.as_str());
        if array.status.is_none() || before.state != *state || word != Some(reason.word) {
            self.tell(array, state, reason);
        }
        Ok(())
    }

    fn tell(&self, array: &Vpsa, state: &VpsaState, reason: &Reason) {
        tracing::info!(vpsa = array.name_any(), %state, reason = reason.message, "The VPSA changed.");
        let object = array.object_ref(&());
        let message = reason.message.as_str();
        match state {
            VpsaState::Unreachable => self.events.warning(object, "Unreachable", message),
            VpsaState::Incompatible => self.events.warning(object, "Incompatible", message),
            VpsaState::Failed => self.events.warning(object, "Failed", message),
            VpsaState::Ready => self.events.normal(object, "Ready", message),
            VpsaState::Configuring => self.events.normal(object, "Configuring", message),
            VpsaState::Importing => self.events.normal(object, "Importing", message),
            VpsaState::Deleting | VpsaState::Other(_) => {
                self.events.normal(object, "Deleting", message);
            }
        }
    }

    fn verdict(&self, state: &VpsaState, reason: &Reason) -> Verdict {
        match state {
            VpsaState::Unreachable => Verdict::Retry(reason.message.clone()),
            // A tenth earlier or later, so that arrays are not all asked at once.
            _ => Verdict::After(self.interval.mul_f64(0.9 + 0.2 * fastrand::f64()), None),
        }
    }
}

fn token_of(name: &str) -> Place<'_> {
    Place {
        object: name,
        field: TOKEN_FIELD,
    }
}
