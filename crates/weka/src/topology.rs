//! From where a volume can be reached: topology keys, and the node labels of the same names.

use std::collections::BTreeMap;

use stowage_csi::proto::csi::{Topology, TopologyRequirement};

/// True on every node that has the driver.
const GLOBAL: &str = "topology.csi.weka.io/global";
const OLD_NODE: &str = "topology.wekafs.csi/node";
/// Known to Kubernetes, and copied as they are.
pub(crate) const ZONES: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// How a node mounts filesystems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// By its Weka client.
    Wekafs,
    Nfs,
}

impl Transport {
    fn word(self) -> &'static str {
        match self {
            Self::Wekafs => "wekafs",
            Self::Nfs => "nfs",
        }
    }
}

type Segments = BTreeMap<String, String>;

/// What a node says of itself. `zones` are the labels of its Node object. `transport` is told only by who manages the label: the
/// kubelet refuses a driver whose value is not that of the label that is there.
pub(crate) fn of_node(
    driver: &str,
    node: &str,
    transport: Option<Transport>,
    zones: &Segments,
) -> Topology {
    let mut segments = identity(driver, node);
    segments.extend(transport.map(|it| transport_of(driver, it)));
    segments.insert(GLOBAL.to_owned(), "true".to_owned());
    segments.extend(
        zones
            .iter()
            .map(|(key, value)| (key.clone(), value.clone())),
    );
    Topology { segments }
}

/// The labels of a node that can use volumes.
pub(crate) fn labels(driver: &str, node: &str, transport: Transport) -> Segments {
    let mut labels = identity(driver, node);
    labels.extend([transport_of(driver, transport)]);
    labels
}

fn identity(driver: &str, node: &str) -> Segments {
    [
        (OLD_NODE.to_owned(), node.to_owned()),
        (format!("topology.{driver}/node"), node.to_owned()),
        (format!("topology.{driver}/accessible"), "true".to_owned()),
    ]
    .into()
}

fn transport_of(driver: &str, transport: Transport) -> (String, String) {
    let word = transport.word().to_owned();
    (format!("topology.{driver}/transport"), word)
}

/// From where a new volume can be reached: from everywhere the driver is, within the zones that were asked for.
pub(crate) fn of_volume(driver: &str, asked: Option<&TopologyRequirement>) -> Vec<Topology> {
    let everywhere = [
        (GLOBAL.to_owned(), "true".to_owned()),
        (format!("topology.{driver}/accessible"), "true".to_owned()),
    ];
    let terms = asked.map(|asked| match asked.requisite.as_slice() {
        [] => asked.preferred.as_slice(),
        requisite => requisite,
    });
    let mut found = Vec::new();
    for term in terms.unwrap_or_default() {
        let zones = term
            .segments
            .iter()
            .filter(|(key, _)| ZONES.contains(&key.as_str()));
        let zones = zones.map(|(key, value)| (key.clone(), value.clone()));
        let topology = Topology {
            segments: everywhere.iter().cloned().chain(zones).collect(),
        };
        if !found.contains(&topology) {
            found.push(topology);
        }
    }
    if found.is_empty() {
        found.push(Topology {
            segments: everywhere.into(),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(entries: &[(&str, &str)]) -> Topology {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Topology {
            segments: entries.iter().map(owned).collect(),
        }
    }

    #[test]
    fn a_node_has_the_keys_that_volumes_ask_for() {
        let zones = topology(&[(ZONES[0], "z1")]).segments;
        let node = of_node("csi.weka.io", "n1", Some(Transport::Wekafs), &zones);
        assert_eq!(
            node,
            topology(&[
                ("topology.csi.weka.io/accessible", "true"),
                ("topology.csi.weka.io/global", "true"),
                ("topology.csi.weka.io/node", "n1"),
                ("topology.csi.weka.io/transport", "wekafs"),
                ("topology.kubernetes.io/zone", "z1"),
                ("topology.wekafs.csi/node", "n1"),
            ])
        );
        for key in of_volume("csi.weka.io", None)[0].segments.keys() {
            assert!(node.segments.contains_key(key), "{key}");
        }
        let mut without = node;
        without.segments.remove("topology.csi.weka.io/transport");
        assert_eq!(of_node("csi.weka.io", "n1", None, &zones), without);
    }

    #[test]
    fn a_volume_keeps_to_the_zones_that_were_asked_for() {
        let asked = TopologyRequirement {
            requisite: vec![
                topology(&[(ZONES[0], "a"), ("topology.csi.weka.io/node", "n1")]),
                topology(&[(ZONES[0], "a"), ("topology.csi.weka.io/node", "n2")]),
                topology(&[(ZONES[0], "b")]),
            ],
            preferred: vec![topology(&[(ZONES[0], "c")])],
        };
        let found = of_volume("d", Some(&asked));
        let zones: Vec<_> = found
            .iter()
            .map(|topology| topology.segments[ZONES[0]].as_str())
            .collect();
        assert_eq!(zones, ["a", "b"]);
        assert!(
            found
                .iter()
                .all(|topology| topology.segments["topology.d/accessible"] == "true")
        );
        assert!(!found[0].segments.contains_key("topology.csi.weka.io/node"));
    }
}
