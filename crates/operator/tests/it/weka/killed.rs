//! The operator is killed after each of its writes; the end must be the same as without.

use serde_json::{Value, json};

use crate::weka::life::{until, with_driver, with_driver_named};
use crate::weka::rig::{CLIENTS, CSI, ON, Rig, eventually};

const OFF: &str = "csi: {installationEnabled: false}";
const OTHER_PLUGIN: &str =
    "{csi: {installationEnabled: true}, defaultImages: {sidecarImage: 'mine:v1'}}";

/// What the operator is in the middle of.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// A client is created.
    Deploy,
    /// The name of its driver changes.
    Rename,
    /// The driver is switched off.
    SwitchOff,
    /// It is switched on again.
    SwitchOn,
    /// The client is deleted while a volume is attached.
    Drain,
    /// The owner of a driver that another client shares is deleted.
    HandOver,
    /// The client gets another image.
    Upgrade,
    /// Its node gets a taint that it does not tolerate.
    Taint,
    /// It tolerates something else.
    Tolerate,
    /// The driver gets another image.
    Plugin,
    /// The client is deleted.
    Delete,
}

impl Deed {
    /// Brings everything to where the deed begins, with an operator that lives.
    async fn prepare(self, rig: &Rig) {
        rig.configure(ON);
        rig.start(i64::MAX).await;
        if !matches!(self, Self::Deploy) {
            rig.create_client("c", at("a")).await;
            until(rig, &with_driver(&[("c", "a")])).await;
            rig.report(CLIENTS, "c-a", true).await;
            eventually("labelled", async || {
                (rig.node_labels("a").await.len() == 3).then_some(())
            })
            .await;
            rig.until_client("c", "deployed", |it| it["status"]["csiDeployed"] == true)
                .await;
        }
        match self {
            Self::SwitchOn => {
                rig.configure(OFF);
                let off = Self::SwitchOff;
                eventually("off", async || off.is_done(rig).await.then_some(())).await;
            }
            Self::Drain => rig.attach("volume", "csi.weka.io", "a", "c-a").await,
            Self::HandOver => {
                rig.create_client("d", at("b")).await;
                until(rig, &with_driver(&[("c", "a"), ("d", "b")])).await;
                rig.until_client("d", "shared", |it| it["status"]["csi"]["owner"] == "weka/c")
                    .await;
            }
            Self::Deploy
            | Self::Rename
            | Self::SwitchOff
            | Self::Upgrade
            | Self::Delete
            | Self::Taint
            | Self::Tolerate
            | Self::Plugin => {}
        }
        rig.kill().await;
    }

    async fn begin(self, rig: &Rig) {
        match self {
            Self::Deploy => rig.create_client("c", at("a")).await,
            Self::Rename => {
                let group = json!({"spec": {"csiConfig": {"csiGroup": "new"}}});
                rig.patch("wekaclients", CLIENTS, "c", group).await;
            }
            Self::SwitchOff => rig.configure(OFF),
            Self::SwitchOn => rig.configure(ON),
            Self::Upgrade => {
                let image = json!({"spec": {"image": "weka:5.0.0"}});
                rig.patch("wekaclients", CLIENTS, "c", image).await;
            }
            Self::Taint => taint(rig, json!([{"key": "k", "effect": "NoExecute"}])).await,
            Self::Tolerate => {
                let tolerations = json!({"spec": {"tolerations": ["k"]}});
                rig.patch("wekaclients", CLIENTS, "c", tolerations).await;
            }
            Self::Plugin => rig.configure(OTHER_PLUGIN),
            Self::Drain | Self::HandOver | Self::Delete => {
                rig.delete("wekaclients", CLIENTS, "c").await;
            }
        }
    }

    fn expected(self) -> Vec<String> {
        match self {
            Self::Deploy
            | Self::SwitchOn
            | Self::Drain
            | Self::Upgrade
            | Self::Tolerate
            | Self::Plugin => with_driver(&[("c", "a")]),
            Self::Taint => with_driver(&[]),
            Self::Rename => with_driver_named("new", &[("c", "a")]),
            Self::SwitchOff => vec!["pods c-a".to_owned(), "wekacontainers c-a".to_owned()],
            Self::HandOver => with_driver(&[("d", "b")]),
            Self::Delete => Vec::new(),
        }
    }

    /// Whether everything is as it should be in the end, the client's status and the node's labels included.
    async fn is_done(self, rig: &Rig) -> bool {
        let client = rig.client_named("c").await;
        let labels = rig.node_labels("a").await;
        let is_deployed = client["status"]["csiDeployed"] == true;
        let status = match self {
            Self::Deploy => is_deployed,
            Self::SwitchOn => is_deployed && labels.len() == 3,
            Self::Rename => {
                let is_new = |it: &String| it.starts_with("topology.csi.new.weka.io/");
                client["status"]["csi"]["driverName"] == "csi.new.weka.io"
                    && is_deployed
                    && labels.len() == 3
                    && labels.iter().all(is_new)
            }
            Self::SwitchOff => {
                client["status"]["csiDeployed"] == false
                    && client["status"]["csi"] == Value::Null
                    && labels.is_empty()
            }
            Self::Drain => {
                let container = rig.get("wekacontainers", CLIENTS, "c-a").await;
                container["status"]["status"] == "Draining" && labels.is_empty()
            }
            Self::HandOver => {
                let heir = rig.client_named("d").await;
                let controller = rig.get("deployments", CSI, "weka-csi-controller").await;
                let selector = &controller["spec"]["template"]["spec"]["nodeSelector"];
                client.is_null()
                    && heir["status"]["csi"]["owner"] == "weka/d"
                    && selector["kubernetes.io/hostname"] == "b"
            }
            Self::Upgrade => {
                let pod = rig.get("pods", CLIENTS, "c-a").await;
                pod["spec"]["containers"][0]["image"] == "weka:5.0.0"
            }
            Self::Taint => {
                client["status"]["printer"]["containers"] == "0/0/0" && labels.is_empty()
            }
            Self::Tolerate => is_deployed && has_driver(rig, r#""key":"k""#).await,
            Self::Plugin => is_deployed && has_driver(rig, r#""mine:v1""#).await,
            Self::Delete => client.is_null() && labels.is_empty(),
        };
        status && rig.objects().await == self.expected().into_iter().collect()
    }
}

async fn taint(rig: &Rig, taints: Value) {
    let taints = json!({"spec": {"taints": taints}});
    rig.patch("nodes", "", "a", taints).await;
}

/// Whether controller and node pod both have this in their pods.
async fn has_driver(rig: &Rig, what: &str) -> bool {
    let controller = rig.get("deployments", CSI, "weka-csi-controller").await;
    let node = rig.get("pods", CSI, "c-a-csi-node").await;
    let controller = controller["spec"]["template"]["spec"].to_string();
    controller.contains(what) && node["spec"].to_string().contains(what)
}

/// Pins a client to a node.
fn at(node: &str) -> Value {
    json!({"nodeSelector": {"kubernetes.io/hostname": node}})
}

/// Takes everything away that a deed has left, with an operator that lives.
async fn clear(rig: &Rig) {
    rig.configure(ON);
    if !rig.get("volumeattachments", "", "volume").await.is_null() {
        rig.delete("volumeattachments", "", "volume").await;
    }
    for name in ["c", "d"] {
        let client = rig.client_named(name).await;
        if !client.is_null() && client["metadata"]["deletionTimestamp"].is_null() {
            rig.delete("wekaclients", CLIENTS, name).await;
        }
    }
    rig.until_objects(&[]).await;
    taint(rig, Value::Null).await;
    for name in ["c", "d"] {
        eventually("gone", async || {
            rig.client_named(name).await.is_null().then_some(())
        })
        .await;
    }
}

/// Kills the operator after 0, 1, 2 ... writes, until it needs no more.
async fn killed_after_each_write(deed: Deed) {
    let rig = Rig::new(&["a", "b"], ON).await;
    for writes in 0.. {
        deed.prepare(&rig).await;
        deed.begin(&rig).await;
        rig.start(writes).await;
        let is_done = eventually("dead or done", async || {
            if rig.is_dead() {
                Some(false)
            } else {
                deed.is_done(&rig).await.then_some(true)
            }
        })
        .await;
        rig.kill().await;
        rig.start(i64::MAX).await;
        let what = format!("{deed:?}, killed after {writes} writes");
        eventually(&what, async || deed.is_done(&rig).await.then_some(())).await;
        if is_done {
            assert!(writes > 2, "{deed:?} needs more than {writes} writes");
            return;
        }
        clear(&rig).await;
        rig.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_survives_a_kill_between_any_two_writes() {
    killed_after_each_write(Deed::Deploy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_name_survives_a_kill_between_any_two_writes() {
    killed_after_each_write(Deed::Rename).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_switch_survives_a_kill_between_any_two_writes() {
    killed_after_each_write(Deed::SwitchOff).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_survives_a_kill_between_any_two_writes() {
    killed_after_each_write(Deed::Delete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_switch_back_on_survives_a_kill_between_any_two_writes() {
    killed_after_each_write(Deed::SwitchOn).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_survives_a_kill_between_any_two_writes() {
    killed_after_each_write(Deed::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_owner_survives_a_kill_between_any_two_writes() {
    killed_after_each_write(Deed::HandOver).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_survives_a_kill_between_any_two_writes() {
    killed_after_each_write(Deed::Upgrade).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taint_survives_a_kill_between_any_two_writes() {
    killed_after_each_write(Deed::Taint).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_toleration_survives_a_kill_between_any_two_writes() {
    killed_after_each_write(Deed::Tolerate).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_image_of_the_driver_survives_a_kill_between_any_two_writes() {
    killed_after_each_write(Deed::Plugin).await;
}
