//! What sidecars of a driver are about to make, by their journals.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use stowage_api::intents::{CONTENT, DRIVER, claims};
use stowage_kubernetes::pages;

/// The claims of a driver for which a call is under way, or was when its sidecar ended: the volume may exist without an object.
pub async fn open(
    client: &Client,
    namespace: &str,
    driver: &str,
) -> Result<Vec<String>, kube::Error> {
    let leases = Api::<Lease>::namespaced(client.clone(), namespace);
    let claims = |lease: Lease| Some(claims_of(&lease, driver)).filter(|it| !it.is_empty());
    let listed = pages::list(&leases, &ListParams::default(), claims).await?;
    Ok(listed.into_iter().flatten().collect())
}

fn claims_of(lease: &Lease, driver: &str) -> Vec<String> {
    let annotations = lease.annotations();
    if annotations.get(DRIVER).is_none_or(|it| it != driver) {
        return Vec::new();
    }
    let journal = annotations.get(CONTENT);
    let claims = journal.map_or_else(|| Some(Vec::new()), |it| claims(it));
    claims.unwrap_or_else(|| vec![format!("those in Lease {}", lease.name_any())])
}
