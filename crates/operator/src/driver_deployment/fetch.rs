//! What a reconcile has to know before it decides.

use kube::ResourceExt;
use kube::core::Resource;
use stowage_api::driver_deployment::{CSIDriverDeployment, Child, FINALIZER};

use super::context::Context;
use super::problem::{Problem, title};
use super::restart;
use super::used::used;
use super::validate::{needs_own_ports, owner};
use crate::cluster::usage::Usage;
use crate::config::OperatorConfig;
use crate::driver::secret::{self, References};
use crate::driver::valid::{Ports, Sidecars};
use crate::driver::{Facts, PodFacts, SecretNames, ValidDriver};
use crate::mounts;
use crate::served::Versions;
use crate::writer::{Key, Objects, Recorded, is_ours};

/// What was fetched.
pub(super) struct Fetched {
    pub(super) config: OperatorConfig,
    pub(super) ports: Ports,
    /// The first of the instance's own ports, if it needs its own.
    pub(super) first_port: Option<u16>,
    /// The instance that runs the driver already.
    pub(super) rival: Option<String>,
    /// The name that the driver had until now, if it is another and still in use.
    pub(super) left_behind: Option<(String, Usage)>,
    /// The objects of the instance.
    pub(super) objects: Objects,
    /// Which kinds the cluster has.
    pub(super) versions: Versions,
    /// Secrets of the driver, whoever named them.
    pub(super) secrets: References,
}

impl Fetched {
    /// What the generator must know of the cluster.
    pub(super) async fn facts(
        &self,
        driver: &ValidDriver,
        context: &Context,
    ) -> Result<Facts, Problem> {
        Ok(Facts {
            secrets: self.secrets_with(driver, context),
            versions: self.versions,
            has_security_constraints: context.writer.has_security_constraints(),
            pods: PodFacts {
                restart_hash: restart::hash(driver, context).await?,
                mounts_key_hash: mounts_key(driver, context).await?.map(|key| key.hash()),
            },
        })
    }

    /// The secrets to grant: also those of classes that are about to be made, where their namespace exists.
    fn secrets_with(&self, driver: &ValidDriver, context: &Context) -> SecretNames {
        let mut names = self.secrets.named.clone();
        for references in own_references(driver) {
            for (namespace, secrets) in references.named.iter() {
                for secret in secrets
                    .iter()
                    .filter(|_| context.cluster.has_namespace(namespace))
                {
                    names.insert(namespace, secret);
                }
            }
        }
        names
    }
}

/// The key with which the nodes of a driver are asked what is mounted, where that is of use.
pub(super) async fn mounts_key(
    driver: &ValidDriver,
    context: &Context,
) -> Result<Option<mounts::Key>, Problem> {
    let can_tell = matches!(driver.sidecars, Sidecars::Builtin(_));
    if driver.drain.is_none() || !can_tell {
        return Ok(None);
    }
    let key = context.mounts.key_of(&driver.owner.uid).await;
    key.map_err(|error| Problem::no_mounts_key(&error))
}

/// What the instance's own classes say about secrets.
pub(super) fn own_references(driver: &ValidDriver) -> impl Iterator<Item = References> {
    let bases = driver.classes.bases();
    bases
        .filter_map(|(_, base)| base.parameters.as_ref())
        .map(secret::of_class)
}

pub(super) async fn fetch(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<Fetched, Problem> {
    let objects = objects(instance, context).await?;
    let left_behind = left_behind(instance, context).await?;
    let first_port = needs_own_ports(&instance.spec).then(|| first_port(instance, context));
    Ok(Fetched {
        config: context.config.borrow().clone(),
        ports: Ports::starting_at(first_port.unwrap_or(Ports::FIRST)),
        first_port,
        rival: rival(instance, context),
        left_behind,
        objects,
        versions: context.writer.versions(),
        secrets: context.cluster.secrets_of(&instance.spec.driver_name),
    })
}

/// What uses the driver by a name that it is about to lose.
async fn left_behind(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<Option<(String, Usage)>, Problem> {
    let status = instance.status.as_ref();
    let Some(old) = status
        .and_then(|it| it.driver_name.as_ref())
        .filter(|old| **old != instance.spec.driver_name)
    else {
        return Ok(None);
    };
    let unknown = |error| Problem::unknown_use(old, &error);
    let usage = used(instance, old, context).await.map_err(unknown)?;
    if usage.is_none() {
        context.cluster.forget(old);
        context.cluster.follow_taint(&context.client, old, None);
        restart::follow_nothing(old, context);
        return Ok(None);
    }
    context.cluster.await_unused(old);
    Ok(Some((old.clone(), usage)))
}

/// The objects of the instance: read one by one where it is known which there are, looked for where it is not.
async fn objects(instance: &CSIDriverDeployment, context: &Context) -> Result<Objects, Problem> {
    // The finalizer comes before the first object.
    if !has_finalizer(instance) {
        return Ok(Objects::new());
    }
    let failed = |error| Problem::of_write(&error, instance, &context.namespace);
    let owner = owner(instance);
    let Some(mut keys) = context.known.lock().get(&owner.uid).cloned() else {
        return context.writer.owned(&owner).await.map_err(failed);
    };
    let children = children(instance);
    keys.extend(children.iter().filter_map(Key::of_child));
    let mut objects = context.writer.read(keys).await.map_err(failed)?;
    let recorded = Recorded::of(children);
    objects.retain(|key, object| is_ours(key.kind, object, &owner, &recorded));
    Ok(objects)
}

/// The objects that the status lists.
pub(super) fn children(instance: &CSIDriverDeployment) -> &[Child] {
    let status = instance.status.as_ref();
    let children = status.and_then(|status| status.children.as_deref());
    children.unwrap_or_default()
}

/// The driver that an instance runs, under whatever name it wants now. The status of an operator from before does not say it.
pub(super) fn driver_of(instance: &CSIDriverDeployment) -> &str {
    let status = instance.status.as_ref();
    let runs = status.and_then(|it| it.driver_name.as_deref());
    runs.unwrap_or(&instance.spec.driver_name)
}

/// The instance that has a better right to the driver: the one that runs it, else the older one.
fn rival(instance: &CSIDriverDeployment, context: &Context) -> Option<String> {
    let driver = &instance.spec.driver_name;
    let rank = |it: &CSIDriverDeployment| {
        (
            !runs(it, driver),
            it.meta().creation_timestamp.as_ref().map(|time| time.0),
            it.namespace(),
            it.name_any(),
        )
    };
    let others = context.instances.state();
    let others = others.iter().filter_map(|it| it.0.as_ref().ok());
    others
        .filter(|it| it.uid() != instance.uid() && claims(it, driver))
        .filter(|it| rank(it) < rank(instance))
        .map(title)
        .next()
}

/// Whether an instance has pods of a driver, as far as its status knows: under whatever name it wants now, and until it
/// is gone.
fn runs(instance: &CSIDriverDeployment, driver: &str) -> bool {
    let status = instance.status.as_ref();
    let runs = status.and_then(|it| it.driver_name.as_deref()) == Some(driver);
    let is_gone = instance.meta().deletion_timestamp.is_some() && !has_finalizer(instance);
    runs && !is_gone
}

/// Whether an instance has a driver or wants it.
fn claims(instance: &CSIDriverDeployment, driver: &str) -> bool {
    let wants = instance.spec.driver_name == driver;
    let is_leaving = instance.meta().deletion_timestamp.is_some();
    runs(instance, driver) || (wants && !is_leaving)
}

pub(super) fn has_finalizer(instance: &CSIDriverDeployment) -> bool {
    instance.finalizers().iter().any(|it| it == FINALIZER)
}

/// The first of the ports that are this instance's alone. It keeps them for its life: pods know them.
fn first_port(instance: &CSIDriverDeployment, context: &Context) -> u16 {
    let of_status = |it: &CSIDriverDeployment| -> Option<u16> {
        let status = it.status.as_ref()?;
        u16::try_from(status.first_port?).ok()
    };
    let uid = instance.uid().unwrap_or_default();
    let mut given = context.ports.lock();
    if let Some(port) = of_status(instance).or_else(|| given.get(&uid).copied()) {
        given.insert(uid, port);
        return port;
    }
    let others = context.instances.state();
    let others = others.iter().filter_map(|it| it.0.as_ref().ok());
    let mut taken: Vec<_> = others
        .filter(|it| it.uid() != instance.uid())
        .filter_map(of_status)
        .collect();
    taken.extend(given.values());
    let port = lowest_free(&taken);
    given.insert(uid, port);
    port
}

fn lowest_free(taken: &[u16]) -> u16 {
    let blocks = (Ports::FIRST..).step_by(usize::from(Ports::COUNT));
    let mut free = blocks.filter(|first| !taken.contains(first));
    // Ten thousand drivers on one node's network are not to be expected.
    free.next().unwrap_or(Ports::FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_given_in_blocks_and_reused() {
        assert_eq!(lowest_free(&[]), 9808);
        assert_eq!(lowest_free(&[9808]), 9812);
        assert_eq!(lowest_free(&[9812, 9808, 9820]), 9816);
        assert_eq!(lowest_free(&[9812]), 9808);
    }
}
