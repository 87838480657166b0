//! What the charts come to, by the schemas of Kubernetes versions that are not run here.

use devcluster::schemas::violations;
use serde_json::{Value, json};

use crate::{everything, manifest};

/// Those that the validator has; 1.20 is asked itself, by every test that applies a manifest.
const VERSIONS: (u32, u32) = (25, 36);

/// Kinds of Kubernetes itself.
fn is_known(object: &Value) -> bool {
    object["apiVersion"] != "monitoring.coreos.com/v1"
}

fn wrong(objects: &[Value]) -> String {
    violations(&json!(objects).to_string(), VERSIONS.0, VERSIONS.1).unwrap()
}

#[test]
fn every_object_and_hook_fits_every_version() {
    let mut weka = json!({"stowage": everything()});
    weka["stowage"]["drivers"]["weka"]["enabled"] = json!(false);
    for (chart, own) in [("stowage", everything()), ("csi-wekafsplugin", weka)] {
        let manifest = manifest(chart, &own);
        let objects: Vec<_> = manifest
            .all()
            .into_iter()
            .filter(|it| is_known(it))
            .cloned()
            .collect();
        assert!(objects.len() > 30, "{}", objects.len());
        assert_eq!(wrong(&objects), "", "{chart}");
    }
}

#[test]
fn what_does_not_fit_is_found() {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "date": {}});
    let budget = json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {}});
    let found = wrong(&[map, budget]);
    assert!(
        found.contains("1.25 ConfigMap/a: ") && found.contains("'date' was unexpected"),
        "{found}"
    );
    assert!(
        found.contains("1.36 PodDisruptionBudget/b: no such kind"),
        "{found}"
    );
}
