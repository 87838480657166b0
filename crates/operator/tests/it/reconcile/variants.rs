//! Nodes that need other pods: a DaemonSet of their own.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stowage_operator::driver::Kind;

use crate::reconcile::draining::finish;
use crate::reconcile::fleet::Fleet;
use crate::reconcile::rig::Rig;

const VARIANT: &str = "hostpath-node-other";

fn variants(spec: &mut Value) {
    let template = spec["driverPerNodeTemplate"].clone();
    let label = json!({"key": "example.com/kind", "value": "other"});
    spec["nodeVariants"] = json!([{"name": "other", "nodeLabel": label, "template": template}]);
}

async fn change(rig: &Rig, change: Value) {
    let patch = Patch::Json::<()>(serde_json::from_value(change).unwrap());
    let nothing = PatchParams::default();
    let patched = rig.instances().patch("hostpath", &nothing, &patch).await;
    patched.unwrap();
}

#[tokio::test]
async fn nodes_with_a_label_count_among_all_nodes_while_they_have_pods_of_their_own() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| variants(&mut instance["spec"])).await;
    let others = rig.get(Kind::DaemonSet, VARIANT).await;
    assert_eq!(
        others["spec"]["template"]["spec"]["nodeSelector"]["example.com/kind"],
        "other"
    );
    rig.make_ready(3).await;
    rig.sync().await;
    // Nothing is known yet of what the second one does.
    assert_eq!(rig.condition("Available").await["status"], "False");
    let counts = json!({
        "observedGeneration": others["metadata"]["generation"], "desiredNumberScheduled": 2,
        "currentNumberScheduled": 2, "numberReady": 1, "numberAvailable": 1, "updatedNumberScheduled": 2,
        "numberMisscheduled": 0,
    });
    rig.patch_status(Kind::DaemonSet, VARIANT, counts.clone())
        .await;
    for node in ["x", "y"] {
        rig.register(&format!("{}-{node}", rig.namespace)).await;
    }
    rig.sync_until("one of five missing", |instance| {
        instance["status"]["nodes"] == "4/5"
    })
    .await;
    let mut counts = counts;
    counts["numberAvailable"] = json!(2);
    rig.patch_status(Kind::DaemonSet, VARIANT, counts).await;
    rig.sync_until("all five", |instance| instance["status"]["nodes"] == "5/5")
        .await;
    assert_eq!(rig.condition("Available").await["status"], "True");
    let instance = rig.instance().await;
    let children = instance["status"]["children"].as_array().unwrap();
    assert!(
        children.iter().any(|child| child["name"] == VARIANT),
        "{children:?}"
    );

    change(
        &rig,
        json!([{"op": "remove", "path": "/spec/nodeVariants"}]),
    )
    .await;
    rig.sync().await;
    assert!(
        rig.get(Kind::DaemonSet, VARIANT).await.is_null(),
        "it goes with its nodes"
    );
    let rest = rig.get(Kind::DaemonSet, "hostpath-node").await;
    assert!(
        rest["spec"]["template"]["spec"]["affinity"].is_null(),
        "{rest}"
    );
}

#[tokio::test]
async fn nodes_with_pods_of_their_own_are_emptied_before_these_are_replaced() {
    let mut rig = Rig::new().await;
    let mut fleet = Fleet::deploy_variant(&mut rig, "other", 2, variants).await;
    assert_eq!(rig.condition("Progressing").await["reason"], "Complete");
    for (number, node) in fleet.nodes.clone().iter().enumerate() {
        fleet.user(&format!("db-{number}"), node).await;
    }
    let field = "/spec/nodeVariants/0/template/spec/terminationGracePeriodSeconds";
    change(&rig, json!([{"op": "add", "path": field, "value": 7}])).await;
    rig.reconcile("hostpath").await;
    fleet.new_revision().await;
    rig.reconcile("hostpath").await;
    assert_eq!(rig.instance().await["status"]["drain"]["progress"], "0/2");
    finish(&mut rig, &fleet, 1).await;
    assert_eq!(fleet.users().await, vec![], "they were moved away");
    assert_eq!(rig.condition("Progressing").await["reason"], "Complete");
}
