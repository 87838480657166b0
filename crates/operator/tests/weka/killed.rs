//! The operator is killed after each of its writes; the end must be the same as without.

use serde_json::{Value, json};

use crate::life::{until, with_driver, with_driver_named};
use crate::rig::{CLIENTS, ON, Rig, eventually};

const OFF: &str = "csi: {installationEnabled: false}";

/// What the operator is in the middle of.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// A client is created.
    Deploy,
    /// The name of its driver changes.
    Rename,
    /// The driver is switched off.
    SwitchOff,
    /// The client is deleted.
    Delete,
}

impl Deed {
    /// Brings everything to where the deed begins, with an operator that lives.
    async fn prepare(self, rig: &Rig) {
        rig.configure(ON);
        rig.start(i64::MAX).await;
        if !matches!(self, Self::Deploy) {
            rig.create_client("c", json!({})).await;
            until(rig, &with_driver(&[("c", "a")])).await;
            rig.report(CLIENTS, "c-a", true).await;
            eventually("labelled", async || {
                (rig.node_labels("a").await.len() == 3).then_some(())
            })
            .await;
            rig.until_client("c", "deployed", |it| it["status"]["csiDeployed"] == true)
                .await;
        }
        rig.kill().await;
    }

    async fn begin(self, rig: &Rig) {
        match self {
            Self::Deploy => rig.create_client("c", json!({})).await,
            Self::Rename => {
                let group = json!({"spec": {"csiConfig": {"csiGroup": "new"}}});
                rig.patch("wekaclients", CLIENTS, "c", group).await;
            }
            Self::SwitchOff => rig.configure(OFF),
            Self::Delete => rig.delete("wekaclients", CLIENTS, "c").await,
        }
    }

    fn expected(self) -> Vec<String> {
        match self {
            Self::Deploy => with_driver(&[("c", "a")]),
            Self::Rename => with_driver_named("new", &[("c", "a")]),
            Self::SwitchOff => vec!["pods c-a".to_owned(), "wekacontainers c-a".to_owned()],
            Self::Delete => Vec::new(),
        }
    }

    /// Whether everything is as it should be in the end, the client's status and the node's labels included.
    async fn is_done(self, rig: &Rig) -> bool {
        let objects = rig.objects().await;
        let client = rig.client_named("c").await;
        let labels = rig.node_labels("a").await;
        let status = match self {
            Self::Deploy => client["status"]["csiDeployed"] == true,
            Self::Rename => {
                let is_new = |it: &String| it.starts_with("topology.csi.new.weka.io/");
                client["status"]["csi"]["driverName"] == "csi.new.weka.io"
                    && client["status"]["csiDeployed"] == true
                    && labels.len() == 3
                    && labels.iter().all(is_new)
            }
            Self::SwitchOff => {
                client["status"]["csiDeployed"] == false
                    && client["status"]["csi"] == Value::Null
                    && labels.is_empty()
            }
            Self::Delete => client.is_null() && labels.is_empty(),
        };
        status && objects == self.expected().into_iter().collect()
    }
}

/// Kills the operator after 0, 1, 2 ... writes, until it needs no more.
async fn killed_after_each_write(deed: Deed) {
    let rig = Rig::new(&["a"], ON).await;
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
            assert!(writes > 3, "{deed:?} needs more than {writes} writes");
            return;
        }
        if !rig.client_named("c").await.is_null() {
            rig.delete("wekaclients", CLIENTS, "c").await;
        }
        rig.until_objects(&[]).await;
        eventually("gone", async || {
            rig.client_named("c").await.is_null().then_some(())
        })
        .await;
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
