//! What is told about a client.

use kube::{Resource as _, ResourceExt as _};
use stowage_api::weka::{
    ClientCounts, ClientCsiStatus, ClientPrinter, ClientState, ClientStats, ContainerState,
    WekaClient, WekaClientStatus, WekaContainer,
};

use crate::weka::conditions::{Finding, set};
use crate::weka::container::is_ready;
use crate::weka::context::Context;
use crate::weka::driver::Outcome;
use crate::weka::nodes::{Fit, fit, why_none};
use crate::weka::object::write_status;
use crate::weka::plan::{Claim, Plan, title};
use crate::weka::problem::{Problem, Reason};

/// Whether CSIDriver, storage classes and controller are as they should be.
const CSI_DEPLOYED: &str = "CsiDeployed";
/// Whether the secret is there with which the driver reaches its cluster.
const CSI_SECRET: &str = "CsiSecretFound";
/// Whether the containers are as they should be.
pub(super) const CONTAINERS: &str = "ContainersSynced";

/// Writes the status, unless it is already there. Called twice: the second time sends nothing.
pub(super) async fn write(
    client: &WekaClient,
    problems: &[Problem],
    context: &Context,
) -> Result<(), Problem> {
    // Somebody else wrote at the same time: the next attempt sees what they wrote.
    if problems.iter().any(|it| it.is_conflict) {
        return Ok(());
    }
    let status = status(client, problems, context);
    write_status(client, client.status.as_ref(), &status, context).await
}

fn status(client: &WekaClient, problems: &[Problem], context: &Context) -> WekaClientStatus {
    let containers = context
        .cluster
        .containers_of(&client.uid().unwrap_or_default());
    let containers: Vec<_> = containers
        .iter()
        .filter_map(|it| it.object.as_deref().ok())
        .collect();
    let counts = counts(client, &containers, context);
    let desired = counts.desired;
    let printed = format!("{}/{}/{desired}", counts.active, counts.created);
    let before = client.status.clone().unwrap_or_default();
    let status = WekaClientStatus {
        status: state(client, &containers),
        printer: Some(ClientPrinter {
            containers: printed,
            ..before.printer.clone().unwrap_or_default()
        }),
        stats: Some(ClientStats {
            containers: counts,
            ..before.stats.clone().unwrap_or_default()
        }),
        observed_generation: client.meta().generation,
        ..before
    };
    let status = with_csi(client, status, &containers, context);
    let finding = synced(client, desired, problems, context);
    with(client, status, Some(finding), CONTAINERS)
}

/// Whether the containers are as they should be. A client without a node has none, and somebody expects some: nothing is tried
/// again for it, a node that changes is seen.
fn synced(client: &WekaClient, desired: i64, problems: &[Problem], context: &Context) -> Finding {
    let is_leaving = client.meta().deletion_timestamp.is_some();
    if problems.is_empty() && desired == 0 && !is_leaving {
        let nodes = context.cluster.all_nodes();
        let nodes: Vec<_> = nodes.iter().map(|node| &node.0).collect();
        let problem = Problem::new(Reason::NoNodes, why_none(&client.spec, &nodes));
        return Finding::of_problem(CONTAINERS, &problem);
    }
    Finding::of_problems(
        CONTAINERS,
        problems,
        "Synced",
        "all containers are as described",
    )
}

fn state(client: &WekaClient, containers: &[&WekaContainer]) -> ClientState {
    if client.meta().deletion_timestamp.is_some() {
        return ClientState::Destroying;
    }
    let image = &client.spec.image;
    let is_behind = |container: &&WekaContainer| {
        let status = container.status.as_ref();
        let runs = status.map_or("", |it| it.last_applied_image.as_str());
        !runs.is_empty() && runs != image
    };
    if containers.iter().any(is_behind) {
        ClientState::Upgrading
    } else {
        ClientState::Running
    }
}

fn counts(client: &WekaClient, containers: &[&WekaContainer], context: &Context) -> ClientCounts {
    let nodes = context.cluster.all_nodes();
    let matching = nodes
        .iter()
        .filter(|node| match fit(&client.spec, &node.0) {
            Fit::Starts => true,
            Fit::Stays => containers.iter().any(|it| it.node() == Some(&node.0.name)),
            Fit::Goes => false,
        });
    let is_leaving = client.meta().deletion_timestamp.is_some();
    let active = containers.iter().filter(|it| {
        let status = it.status.as_ref();
        status.is_some_and(|it| it.status == ContainerState::Running)
    });
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    ClientCounts {
        active: number(active.count()),
        created: number(containers.len()),
        desired: if is_leaving {
            0
        } else {
            number(matching.count())
        },
        ..ClientCounts::default()
    }
}

/// What is told about the driver.
fn with_csi(
    client: &WekaClient,
    status: WekaClientStatus,
    containers: &[&WekaContainer],
    context: &Context,
) -> WekaClientStatus {
    let plan = context.plan();
    let (status, finding) = match plan.claim(client) {
        // While it goes, the status still says what has to go.
        Claim::Nothing if client.meta().deletion_timestamp.is_some() => (status, None),
        Claim::Nothing => {
            let status = WekaClientStatus {
                csi: None,
                csi_deployed: false,
                ..status
            };
            let why = "`csi.installationEnabled` is off in the operator's configuration";
            let had_one = status.conditions.iter().any(|it| it.type_ == CSI_DEPLOYED);
            let finding = had_one.then(|| Finding::no(CSI_DEPLOYED, "Disabled", why));
            return with(
                client,
                with(client, status, finding, CSI_DEPLOYED),
                None,
                CSI_SECRET,
            );
        }
        Claim::Held(_, problem) => {
            let finding = Finding::of_problem(CSI_DEPLOYED, &problem);
            let status = WekaClientStatus {
                csi_deployed: false,
                ..status
            };
            (status, Some(finding))
        }
        Claim::Driver(driver) => {
            let outcome = context.outcomes.lock().get(&driver).cloned();
            match outcome {
                // Not looked at since the start.
                None => return status,
                Some(outcome) => deployed(&driver, &plan, &outcome, status, containers, context),
            }
        }
    };
    let secret = plan.claim(client).driver().and_then(|driver| {
        let secret = &plan.drivers.get(driver)?.secret;
        let problem = context.secrets.finding(secret).problem(secret);
        let shown = format!("secret `{}` in namespace `{}`", secret.1, secret.0);
        let found = Finding::yes(CSI_SECRET, "Found", &shown);
        Some(problem.map_or(found, |it| Finding::of_problem(CSI_SECRET, &it)))
    });
    let status = with(client, status, finding, CSI_DEPLOYED);
    with(client, status, secret, CSI_SECRET)
}

fn deployed(
    driver: &str,
    plan: &Plan,
    outcome: &Outcome,
    status: WekaClientStatus,
    containers: &[&WekaContainer],
    context: &Context,
) -> (WekaClientStatus, Option<Finding>) {
    let finding = Finding::of_problems(
        CSI_DEPLOYED,
        &outcome.problems,
        "Success",
        "Completed successfully",
    );
    let owner = plan.drivers.get(driver).map(|it| title(it.owner()));
    let csi = outcome.is_usable.then(|| ClientCsiStatus {
        driver_name: driver.to_owned(),
        owner: owner.unwrap_or_default(),
        controller: outcome.controller.clone(),
        storage_classes: outcome.storage_classes.clone(),
        nodes: nodes(driver, containers, context),
        config_hash: outcome.config_hash.clone(),
        driver_version: context.config.borrow().csi.reported_version().to_owned(),
        ..ClientCsiStatus::default()
    });
    let status = WekaClientStatus {
        csi_deployed: outcome.problems.is_empty(),
        csi: csi.or(status.csi.clone()),
        ..status
    };
    (status, Some(finding))
}

/// Ready node pods of desired ones.
fn nodes(driver: &str, containers: &[&WekaContainer], context: &Context) -> String {
    let beside = containers
        .iter()
        .filter(|it| it.spec.csi_driver_name == driver);
    let ready = beside.clone().filter(|container| {
        let pods = context
            .cluster
            .pods_beside(&container.uid().unwrap_or_default());
        pods.iter().any(|it| is_ready(&it.pod))
    });
    format!("{}/{}", ready.count(), beside.count())
}

/// The status with this condition, or without it.
fn with(
    client: &WekaClient,
    mut status: WekaClientStatus,
    finding: Option<Finding>,
    about: &str,
) -> WekaClientStatus {
    let generation = client.meta().generation;
    set(&mut status.conditions, finding, about, generation);
    status
}
