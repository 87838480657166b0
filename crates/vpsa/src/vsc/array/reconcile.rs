//! Does the steps.

mod import;
mod token;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::ResourceExt as _;
use parking_lot::Mutex;
use stowage_api::causes::chain;
use stowage_api::vpsa::{MANAGE_EXTERNAL_VOLUMES, Vpsa, VpsaState, VscStorageClass};
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::queue::Verdict;

use super::drift;
use super::facts::{Content, Facts, identity};
use super::status::{Said, status};
use super::step::{Desired, Observed, Step, Trouble, next_step};
use crate::vsc::cipher::{CipherError, Ciphers};
use crate::vsc::cluster::{Kept, is_made};
use crate::vsc::condition::Reason;
use crate::vsc::context::{BEHIND, Context};
use crate::vsc::queues::Queues;
use crate::vsc::write::is_held;

/// Keeps VPSAs.
pub struct Arrays {
    /// What all kinds have.
    pub context: Arc<Context>,
    /// For secrets.
    pub ciphers: Arc<Ciphers>,
    /// Where objects wait that are not on the array as they should be.
    pub queues: Queues,
    /// How long apart an array is looked at.
    pub interval: Duration,
    /// How long apart it is looked at what is on it.
    pub refresh: Duration,
    /// Whether what is there is imported without being asked for.
    pub import: bool,
    /// When it was last looked at what is on each array.
    pub looks: Mutex<HashMap<String, LastLook>>,
}

/// When it was last looked at what is on an array.
#[derive(Clone, Copy, Debug)]
pub struct LastLook {
    at: Instant,
    /// How many objects of ours were on it.
    objects: usize,
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
    imported: bool,
}

impl Look {
    /// What is on the array, if it was asked for that.
    fn content(&self) -> Option<&Content> {
        self.facts.as_ref()?.as_ref().ok()?.content.as_ref()
    }
}

impl Arrays {
    /// Does what is to be done for one array.
    pub async fn reconcile(&self, name: &str) -> Verdict {
        let Some(kept) = self.context.cluster.arrays.store().get(name) else {
            self.context.clients.forget(name);
            self.context.pools.forget(name);
            self.looks.lock().remove(name);
            return Verdict::Done;
        };
        match self.work(kept.object.clone()).await {
            Ok(verdict) => verdict,
            // Somebody else was faster: what they wrote comes with the watch.
            Err(StepError::Object(error)) if error.is_stale() => Verdict::After(BEHIND, None),
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
            let now = match &step {
                Step::Rest => return Ok(Verdict::Done),
                Step::Ask => {
                    self.ask(&array, &mut look).await;
                    continue;
                }
                Step::Import => {
                    if let Some(content) = look.content() {
                        self.import(&array, content).await?;
                    }
                    look.imported = true;
                    continue;
                }
                // It is said already, and nothing follows from it.
                Step::Record(state, reason) if last.as_ref() == Some(&step) => {
                    return Ok(self.verdict(state, reason));
                }
                Step::Record(state, reason) => {
                    Some(self.record(&array, state, reason, &look).await?)
                }
                Step::Hold => self.context.writer.hold(&array).await?,
                Step::Conceal => Some(self.conceal(&array).await?),
                Step::LetGo => {
                    // What is known may be behind. What comes with the watch tells why it stays.
                    if self.context.writer.is_array_used(&array.name_any()).await? {
                        return Ok(Verdict::After(BEHIND, None));
                    }
                    // The records of what is on it would lead nowhere.
                    let nothing = Content::default();
                    self.forget(&array.name_any(), &nothing).await?;
                    self.context.writer.let_go(&array).await?;
                    return Ok(Verdict::Done);
                }
            };
            last = Some(step);
            let Some(now) = now else {
                return Ok(Verdict::Done);
            };
            array = now;
        }
    }

    fn next(&self, array: &Vpsa, look: &Look) -> Step {
        let class = self.class(array);
        let annotation = array.annotations().get(MANAGE_EXTERNAL_VOLUMES);
        let desired = Desired {
            deleting: array.metadata.deletion_timestamp.is_some(),
            class: class.as_ref().map(|it| it.object.spec.pool_name.as_deref()),
            class_name: &array.spec.vsc_storage_class_name,
            portals: &array.spec.portals,
            import: self.import || annotation.is_some_and(|value| !value.is_empty()),
        };
        let observed = Observed {
            held: is_held(array),
            plain_token: self.has_plain_token(array),
            recorded: array.status.as_ref().map(|status| &status.state),
            users: self.context.cluster.users(&array.name_any()),
            array: look.facts.as_ref().map(Result::as_ref),
            imported: look.imported || look.content().is_none(),
        };
        next_step(&desired, &observed)
    }

    /// The class that an array is a member of, unless that is to go.
    fn class(&self, array: &Vpsa) -> Option<Arc<Kept<VscStorageClass>>> {
        let classes = self.context.cluster.classes.store();
        let class = classes.get(&array.spec.vsc_storage_class_name);
        class.filter(|it| it.object.metadata.deletion_timestamp.is_none())
    }

    /// Asks the array, and has those looked at that are not on it as they should be.
    async fn ask(&self, array: &Vpsa, look: &mut Look) {
        let name = array.name_any();
        let objects = self.context.cluster.objects(&name);
        let volumes = self.context.cluster.volumes.store();
        // Those that are gone need no room either.
        let settled = self.context.reserved.settled(&name, |volume| {
            let volume = volumes.get(volume);
            volume.is_none_or(|it| is_made(&it.object))
        });
        look.facts = Some(self.facts(array, objects).await);
        match &look.facts {
            Some(Ok(facts)) => {
                self.context.pools.learn(&name, &facts.pools);
                self.context.reserved.told(&name, &settled);
            }
            _ => self.context.pools.forget(&name),
        }
        if let Some(content) = look.content() {
            let at = Instant::now();
            self.looks
                .lock()
                .insert(name.clone(), LastLook { at, objects });
            for volume in drift::volumes(&self.context.cluster, &name, content) {
                self.queues.volumes.add(volume);
            }
            for attachment in drift::attachments(&self.context.cluster, &name, content) {
                self.queues.attachments.add(attachment);
            }
        }
    }

    /// What the array says, if it is the one it was. From then on others are let through to it, or told why not.
    async fn facts(&self, array: &Vpsa, objects: usize) -> Result<Facts, Trouble> {
        let clients = &self.context.clients;
        let client = clients.client(array).await?;
        let api = client.within(self.context.patience);
        let facts = Facts::ask(&api, self.is_due(array, objects)).await;
        let facts = match facts.map_err(Trouble::from) {
            Ok(facts) => self.identify(array, &facts).map(|()| facts),
            Err(trouble) => Err(trouble),
        };
        let heard = facts.as_ref().map(drop).map_err(Clone::clone);
        clients.hear(&array.name_any(), &client, heard);
        facts
    }

    /// Whether an array is the one that our volumes are on, and no other object's. Identities on arrays are small numbers: on
    /// another array they are somebody else's volumes.
    fn identify(&self, array: &Vpsa, facts: &Facts) -> Result<(), Trouble> {
        let (name, cluster) = (array.name_any(), &self.context.cluster);
        let Some(now) = facts.identity() else {
            return Ok(());
        };
        if cluster.users(&name) > 0 {
            return match recorded(array) {
                Some(known) if !known.eq_ignore_ascii_case(now) => Err(Trouble::Another {
                    known: known.to_owned(),
                    now: now.to_owned(),
                }),
                _ => Ok(()),
            };
        }
        let age = |it: &Vpsa| (it.metadata.creation_timestamp.clone(), it.name_any());
        let is_it = |it: &&Arc<Kept<Vpsa>>| {
            let known = recorded(&it.object);
            let is_same = known.is_some_and(|known| known.eq_ignore_ascii_case(now));
            is_same && age(&it.object) < age(array)
        };
        match cluster.arrays.store().all().iter().find(is_it) {
            Some(other) => Err(Trouble::Taken {
                other: other.object.name_any(),
                identity: now.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Whether it is time to look at what is on the array: there may be much.
    fn is_due(&self, array: &Vpsa, objects: usize) -> bool {
        let state = array.status.as_ref().map(|status| &status.state);
        let last = self.looks.lock().get(&array.name_any()).copied();
        state != Some(&VpsaState::Ready)
            || last.is_none_or(|it| it.objects != objects || it.at.elapsed() >= self.refresh)
    }

    /// Says how an array is, if that is news. Called twice: it is said.
    async fn record(
        &self,
        array: &Vpsa,
        state: &VpsaState,
        reason: &Reason,
        look: &Look,
    ) -> Result<Vpsa, StepError> {
        let before = array.status.clone().unwrap_or_default();
        let facts = look.facts.as_ref().and_then(|facts| facts.as_ref().ok());
        let (name, class) = (array.name_any(), self.class(array));
        let said = facts.map(|facts| Said {
            facts,
            pool: class
                .as_ref()
                .and_then(|it| it.object.spec.pool_name.as_deref()),
            portals: &array.spec.portals,
        });
        let cipher = &self.ciphers.chap;
        let now = status(&before, &name, state.clone(), said, cipher)?;
        let recorded = self.context.record(array, now, reason).await?;
        if recorded.is_news {
            self.tell(array, state, reason);
        }
        Ok(recorded.object)
    }

    /// Events of arrays have the state as their reason, as with Zadara's driver.
    fn tell(&self, array: &Vpsa, state: &VpsaState, reason: &Reason) {
        let (word, is_trouble) = match state {
            VpsaState::Unreachable => ("Unreachable", true),
            VpsaState::Incompatible => ("Incompatible", true),
            VpsaState::Failed => ("Failed", true),
            VpsaState::Ready => ("Ready", false),
            VpsaState::Configuring => ("Configuring", false),
            VpsaState::Importing => ("Importing", false),
            VpsaState::Deleting | VpsaState::Other(_) => ("Deleting", false),
        };
        let reason = Reason {
            word,
            ..reason.clone()
        };
        self.context.tell(array, &reason, is_trouble);
    }

    fn verdict(&self, state: &VpsaState, reason: &Reason) -> Verdict {
        match state {
            VpsaState::Unreachable => Verdict::Retry(reason.message.clone()),
            // A tenth earlier or later, so that arrays are not all asked at once.
            _ => Verdict::After(self.interval.mul_f64(0.9 + 0.2 * fastrand::f64()), None),
        }
    }
}

/// Who an array was when it was last looked at.
fn recorded(array: &Vpsa) -> Option<&str> {
    identity(array.status.as_ref()?.iqn.as_deref()?)
}
