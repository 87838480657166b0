//! VSCStorageClass: its members, taken together.

mod step;

use std::sync::Arc;

use kube::ResourceExt;
use stowage_api::causes::chain;
use stowage_api::vpsa::{ClassState, Vpsa, VscStorageClass};
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::queue::Verdict;

pub use self::step::{Observed, Step, aggregate, is_sick, next_step};
use super::cluster::of_class;
use super::condition::Reason;
use super::context::{BEHIND, Context};
use super::write::is_held;

/// Keeps VSCStorageClasses.
pub struct Classes {
    /// What all kinds have.
    pub context: Arc<Context>,
}

impl Classes {
    /// Does what is to be done for one class.
    pub async fn reconcile(&self, name: &str) -> Verdict {
        let Some(kept) = self.context.cluster.classes.store().get(name) else {
            return Verdict::Done;
        };
        match self.work(kept.object.clone()).await {
            Ok(verdict) => verdict,
            // Somebody else was faster: what they wrote comes with the watch.
            Err(error) if error.is_stale() => Verdict::After(BEHIND, None),
            Err(error) => {
                let text = chain(&error);
                tracing::warn!(class = name, error = text, "Trying again.");
                Verdict::Retry(text)
            }
        }
    }

    async fn work(&self, mut class: VscStorageClass) -> Result<Verdict, ObjectError> {
        let mut last = None;
        loop {
            let step = self.next(&class);
            if last.as_ref() == Some(&step) {
                return Ok(Verdict::Done);
            }
            let now = match &step {
                Step::Rest => return Ok(Verdict::Done),
                Step::Hold => self.context.writer.hold(&class).await?,
                Step::Record(state, reason) => Some(self.record(&class, state, reason).await?),
                Step::LetGo => {
                    // What is known may be behind. What comes with the watch tells why it stays.
                    if self.context.writer.is_class_used(&class.name_any()).await? {
                        return Ok(Verdict::After(BEHIND, None));
                    }
                    self.context.writer.let_go(&class).await?;
                    return Ok(Verdict::Done);
                }
            };
            last = Some(step);
            let Some(now) = now else {
                return Ok(Verdict::Done);
            };
            class = now;
        }
    }

    fn next(&self, class: &VscStorageClass) -> Step {
        let name = class.name_any();
        let members = self.context.cluster.members(&name);
        let members: Vec<&Vpsa> = members.iter().map(|it| &it.object).collect();
        let is_default = |class: &VscStorageClass| class.spec.is_default == Some(true);
        let others = self.context.cluster.classes.store().all();
        let others = others.iter().map(|it| &it.object);
        let observed = Observed {
            held: is_held(class),
            deleting: class.metadata.deletion_timestamp.is_some(),
            is_default: is_default(class),
            other_defaults: others
                .filter(|it| is_default(it) && it.name_any() != name)
                .map(ResourceExt::name_any)
                .collect(),
            volumes: self
                .context
                .cluster
                .volumes
                .store()
                .count_in_group(&of_class(&name)),
        };
        next_step(&observed, &members)
    }

    /// Says how a class is, if that is news. Called twice: it is said.
    async fn record(
        &self,
        class: &VscStorageClass,
        state: &ClassState,
        reason: &Reason,
    ) -> Result<VscStorageClass, ObjectError> {
        let members = self.context.cluster.members(&class.name_any());
        let members: Vec<&Vpsa> = members.iter().map(|it| &it.object).collect();
        let before = class.status.clone().unwrap_or_default();
        let now = aggregate(&before, state.clone(), &members);
        let recorded = self.context.record(class, now, reason).await?;
        if recorded.is_news {
            self.context.tell(class, reason, !reason.ready);
        }
        Ok(recorded.object)
    }
}
