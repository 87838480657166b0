//! What opens the arrays, access keys and CHAP secrets, is shown by nobody: not in logs, not in Events, not in objects.

use devcluster::testing::Namespace;
use devcluster::vpsa_sim::ACCESS_KEY;
use stowage_tests::{cluster, eventually};

use super::vpsa_arrays::Vpsas;

/// Custom resources, and what Kubernetes itself keeps of volumes and of where they are attached.
const OBJECTS: &str = "vpsas.storage.zadara.com,vscstorageclasses.storage.zadara.com,vscnodes.storage.zadara.com,\
                       volumes.storage.zadara.com,externalvolumes.storage.zadara.com,\
                       volumeattachments.storage.zadara.com,snapshots.storage.zadara.com,\
                       persistentvolumes,volumeattachments.storage.k8s.io";

/// To be called while shares and disks are in use.
pub fn nobody_shows_what_opens_the_arrays(vpsas: &Vpsas, namespace: &Namespace) {
    let secrets = vpsas.secrets();
    assert!(secrets.iter().any(|it| it == ACCESS_KEY), "{secrets:?}");
    assert!(secrets.iter().any(|it| it != ACCESS_KEY), "{secrets:?}");
    let events = ["get", "events", "-o", "json"];
    let of_arrays = [&["--namespace=default"], &events[..]].concat();
    let mut places = vec![
        ("events of pods and claims", namespace.kubectl(&events)),
        ("events of the driver", Ok(vpsas.kubectl(&events))),
        ("events of arrays", cluster().kubectl(&of_arrays)),
        (
            "objects",
            cluster().kubectl(&["get", OBJECTS, "-o", "json"]),
        ),
    ];
    places.extend(
        logs(vpsas)
            .into_iter()
            .map(|log| ("a log of the driver", Ok(log))),
    );
    for (place, text) in places {
        let text = text.unwrap();
        assert!(!text.is_empty(), "{place}");
        let shown = secrets.iter().find(|secret| text.contains(secret.as_str()));
        assert_eq!(shown, None, "{place}: shown there");
    }
}

/// What the driver's pods have said, all containers of each.
fn logs(vpsas: &Vpsas) -> Vec<String> {
    let pods = vpsas.kubectl(&["get", "pods", "-o", "name"]);
    let logs = pods.lines().map(|pod| {
        let words = ["logs", pod, "--all-containers", "--tail=-1"];
        eventually("the driver's pods show their logs", || {
            vpsas.try_kubectl(&words).ok()
        })
    });
    let logs: Vec<_> = logs.collect();
    assert!(logs.len() > 2, "controllers and nodes: {pods}");
    logs
}
