//! Labels of nodes by which volumes of a driver find them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stowage_kubernetes::answer;

use super::controller;
use super::fetch::SeenContainer;
use crate::weka::context::Context;
use crate::weka::names::accessible_label;
use crate::weka::problem::Problem;

/// The labels of a node whose client serves.
fn of_driver(driver: &str, node: &str) -> [(String, String); 3] {
    [
        (format!("topology.{driver}/node"), node.to_owned()),
        (format!("topology.{driver}/transport"), "wekafs".to_owned()),
        (accessible_label(driver), "true".to_owned()),
    ]
}

/// Adds what is missing. Called twice: the second time sends nothing.
pub(super) async fn set(
    driver: Option<&str>,
    seen: &SeenContainer,
    context: &Context,
) -> Result<(), Problem> {
    let (Some(driver), Some(node)) = (driver, &seen.node) else {
        return Ok(());
    };
    let missing = of_driver(driver, &node.name)
        .into_iter()
        .filter(|(key, value)| node.labels.get(key) != Some(value))
        .map(|(key, value)| (key, json!(value)));
    write(&node.name, missing.collect(), context).await
}

/// Takes away what is there, and the driver's controllers with it. The label by which the scheduler chooses a node for those
/// goes first, the others last: whoever dies in between does it again. Called twice: the second time sends nothing.
pub(super) async fn remove(
    drivers: &[String],
    seen: &SeenContainer,
    context: &Context,
) -> Result<(), Problem> {
    let Some(node) = &seen.node else {
        return Ok(());
    };
    for driver in drivers {
        let labels = of_driver(driver, &node.name).into_iter();
        let present = labels.filter(|(key, _)| node.labels.contains_key(key));
        let present = present.map(|(key, _)| (key, Value::Null));
        let (first, last): (BTreeMap<_, _>, BTreeMap<_, _>) =
            present.partition(|(key, _)| *key == accessible_label(driver));
        if first.is_empty() && last.is_empty() {
            continue;
        }
        write(&node.name, first, context).await?;
        controller::send_away(driver, &node.name, context).await?;
        write(&node.name, last, context).await?;
    }
    Ok(())
}

async fn write(
    node: &str,
    labels: BTreeMap<String, Value>,
    context: &Context,
) -> Result<(), Problem> {
    if labels.is_empty() {
        return Ok(());
    }
    let api = Api::<Node>::all(context.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    match api
        .patch_metadata(node, &PatchParams::default(), &patch)
        .await
    {
        Ok(_) => Ok(()),
        // Nobody needs the labels of a node that is gone.
        Err(error) if answer::is_gone(&error) => Ok(()),
        Err(error) => Err(Problem::from(error)),
    }
}
