//! A client that cannot be read: it keeps what it has, and says so.

use kube::Resource as _;
use stowage_api::weka::{WekaClient, WekaClientStatus};

use super::status::CONTAINERS;
use crate::weka::cluster::Kept;
use crate::weka::conditions::{Finding, set};
use crate::weka::context::Context;
use crate::weka::object::write_status;
use crate::weka::problem::{Problem, Reason};

/// Says on the client itself why it cannot be read, or in an event where its status cannot be read either.
/// Called twice: the second time sends nothing.
pub(super) async fn tell(
    kept: &Kept<WekaClient>,
    error: &str,
    context: &Context,
) -> Result<(), Problem> {
    let message = format!(
        "this WekaClient cannot be read, and everything of it stays as it is: {error}: correct that field, and apply \
         `deploy/crds/weka.weka.io.yaml`, which refuses such values"
    );
    // Nothing but its metadata is looked at.
    let client = WekaClient {
        metadata: kept.raw.metadata.clone(),
        ..WekaClient::default()
    };
    let status = kept.raw.data.get("status").cloned();
    let before = status.map(serde_json::from_value::<WekaClientStatus>);
    let Ok(before) = before.transpose() else {
        let object = client.object_ref(&());
        context.events.warning(object, "Unreadable", message);
        return Ok(());
    };
    let mut status = before.clone().unwrap_or_default();
    let problem = Problem::new(Reason::Unreadable, message);
    let finding = Finding::of_problem(CONTAINERS, &problem);
    let generation = client.metadata.generation;
    set(
        &mut status.conditions,
        Some(finding),
        CONTAINERS,
        generation,
    );
    write_status(&client, before.as_ref(), &status, context).await
}
