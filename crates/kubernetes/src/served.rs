//! Kinds in the version that a server has, which need not be the one they were written for.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::ApiResource;
use serde::Deserialize;

/// Where a kind is served. `group_version` such as `storage.k8s.io/v1beta1`; `None`: where it was written for.
pub fn at<K: Resource<DynamicType = ()>>(group_version: Option<&str>) -> ApiResource {
    let mut resource = ApiResource::erase::<K>(&());
    if let Some((_, version)) = group_version.and_then(|both| both.split_once('/')) {
        resource.api_version = format!("{}/{version}", resource.group);
        version.clone_into(&mut resource.version);
    }
    resource
}

/// An object of the kind `K`, wherever it is served: shapes that differ between versions are the reader's business.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Served<K>(pub K);

impl<K: Resource<DynamicType = ()>> Resource for Served<K> {
    type DynamicType = ApiResource;
    type Scope = K::Scope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::storage::v1::VolumeAttributesClass;

    use super::*;

    #[test]
    fn a_kind_is_found_where_the_server_has_it() {
        for (given, path) in [
            (None, "/apis/storage.k8s.io/v1/volumeattributesclasses"),
            (
                Some("storage.k8s.io/v1beta1"),
                "/apis/storage.k8s.io/v1beta1/volumeattributesclasses",
            ),
        ] {
            let resource = at::<VolumeAttributesClass>(given);
            let found = Served::<VolumeAttributesClass>::url_path(&resource, None);
            assert_eq!(found, path);
        }
    }
}
