//! Kinds of which only a few fields are read.
//!
//! Everything else, `managedFields` above all, is skipped while decoding: it is never allocated. All fields are
//! optional, so that one odd object cannot stop a whole watch.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Deserializer};

/// Declares a kind whose path and names are those of a Kubernetes type, and whose content is only what is named here.
///
/// ```
/// stowage_kubernetes::reduced!(
///     /// A Node: only its labels are read.
///     ReducedNode as k8s_openapi::api::core::v1::Node {}
/// );
/// ```
#[macro_export]
macro_rules! reduced {
    ($(#[$about:meta])* $name:ident as $kind:ty { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Debug, ::serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            #[serde(default, deserialize_with = "::stowage_kubernetes::reduced::metadata")]
            pub(crate) metadata: ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            $(#[serde(default)] pub(crate) $field: $type,)*
        }

        impl ::kube::Resource for $name {
            type DynamicType = ();
            type Scope = <$kind as ::kube::Resource>::Scope;

            fn kind(kind: &()) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube::Resource>::kind(kind)
            }
            fn group(kind: &()) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube::Resource>::group(kind)
            }
            fn version(kind: &()) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube::Resource>::version(kind)
            }
            fn plural(kind: &()) -> ::std::borrow::Cow<'_, str> {
                <$kind as ::kube::Resource>::plural(kind)
            }
            fn meta(&self) -> &::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// Reads metadata without what nobody reads.
pub fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Reduced {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        deletion_timestamp: Option<Time>,
        annotations: Option<BTreeMap<String, String>>,
        labels: Option<BTreeMap<String, String>>,
        finalizers: Option<Vec<String>>,
    }
    let read = Reduced::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        deletion_timestamp: read.deletion_timestamp,
        annotations: read.annotations,
        labels: read.labels,
        finalizers: read.finalizers,
        ..ObjectMeta::default()
    })
}
