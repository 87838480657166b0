//! Kinds by their names in paths.

use kube::api::ApiResource;
use kube::core::GroupVersionKind;

pub(crate) fn resource(plural: &str) -> ApiResource {
    const RBAC: &str = "rbac.authorization.k8s.io";
    const STORAGE: &str = "storage.k8s.io";
    const WEKA: &str = "weka.weka.io";
    let (group, version, kind) = match plural {
        "namespaces" => ("", "v1", "Namespace"),
        "nodes" => ("", "v1", "Node"),
        "pods" => ("", "v1", "Pod"),
        "secrets" => ("", "v1", "Secret"),
        "events" => ("", "v1", "Event"),
        "resourcequotas" => ("", "v1", "ResourceQuota"),
        "persistentvolumes" => ("", "v1", "PersistentVolume"),
        "persistentvolumeclaims" => ("", "v1", "PersistentVolumeClaim"),
        "serviceaccounts" => ("", "v1", "ServiceAccount"),
        "clusterroles" => (RBAC, "v1", "ClusterRole"),
        "clusterrolebindings" => (RBAC, "v1", "ClusterRoleBinding"),
        "roles" => (RBAC, "v1", "Role"),
        "rolebindings" => (RBAC, "v1", "RoleBinding"),
        "csidrivers" => (STORAGE, "v1", "CSIDriver"),
        "storageclasses" => (STORAGE, "v1", "StorageClass"),
        "volumeattachments" => (STORAGE, "v1", "VolumeAttachment"),
        "deployments" => ("apps", "v1", "Deployment"),
        "wekaclients" => (WEKA, "v1alpha1", "WekaClient"),
        "wekacontainers" => (WEKA, "v1alpha1", "WekaContainer"),
        "wekaclusters" => (WEKA, "v1alpha1", "WekaCluster"),
        other => panic!("{other}"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}
