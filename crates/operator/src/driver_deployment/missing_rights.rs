//! While the operator may not see what it must know, every instance says which right is missing.

use std::pin::pin;

use futures::StreamExt;
use kube::api::ListParams;
use kube::{Api, Error};
use stowage_kubernetes::answer;

use super::context::{Context, Guarded};
use super::outcome::Outcome;
use super::problem::Problem;
use super::status;
use super::validate::{ManagementState, management_state};

/// Says on every instance why nothing is done. Never ends.
pub(super) async fn show_missing_rights(context: &Context) {
    let mut changes = pin!(context.rights.changes());
    loop {
        if let Some(problem) = Problem::missing_rights(&context.rights)
            && let Err(error) = show_on_instances(&problem, context).await
        {
            let error = answer::chain(&error);
            tracing::warn!(error, "The missing right could not be shown on instances.");
        }
        if changes.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

async fn show_on_instances(problem: &Problem, context: &Context) -> Result<(), Error> {
    let instances = Api::<Guarded>::all(context.client.clone());
    for instance in instances.list(&ListParams::default()).await? {
        let Ok(instance) = instance.0 else { continue };
        if management_state(&instance.spec) == ManagementState::Managed {
            let outcome = Outcome::from(problem.clone());
            status::make_known(&instance, &outcome, context).await?;
        }
    }
    Ok(())
}
