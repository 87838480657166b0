//! Where this node is: the labels of its Node that volumes are placed by.

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt as _};
use stowage_api::vpsa::Segments;
use stowage_csi::proto::csi::Topology;
use stowage_kubernetes::object_error::explain;

use crate::driver::error::Error;

/// Where this node is.
pub struct Location {
    /// The API server.
    pub client: Client,
    /// This node's name.
    pub node: String,
    /// The labels that say where; none without topology.
    pub keys: Vec<String>,
}

impl Location {
    /// What the node's labels say; nothing without topology.
    pub(super) async fn topology(&self) -> Result<Option<Topology>, Error> {
        if self.keys.is_empty() {
            return Ok(None);
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = nodes.get(&self.node).await.map_err(explain("get", "nodes"));
        let segments = segments(&self.keys, &self.node, node?.labels())?;
        Ok(Some(Topology { segments }))
    }
}

/// The values of the labels, all of which the node must have: Kubernetes wants every node to say the same.
fn segments(keys: &[String], node: &str, labels: &Segments) -> Result<Segments, Error> {
    let value = |key: &String| {
        let value = labels.get(key).cloned();
        let value = value.ok_or_else(|| {
            Error::Precondition(format!(
                "Node `{node}` has no label `{key}`, which --topology-keys names: label it"
            ))
        });
        Ok((key.clone(), value?))
    };
    keys.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_where_its_labels_say_and_one_without_a_label_is_named() {
        let labels: Segments = [("zone", "a"), ("other", "x")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        let found = segments(&keys(&["zone"]), "n", &labels).unwrap();
        assert_eq!(found, Segments::from([("zone".to_owned(), "a".to_owned())]));
        let missing = segments(&keys(&["zone", "rack"]), "n", &labels).unwrap_err();
        assert!(
            missing.to_string().contains("Node `n` has no label `rack`"),
            "{missing}"
        );
    }
}
