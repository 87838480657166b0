//! Which objects there should be, and what they say. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};
use stowage_api::quantity;
use stowage_csi::proto::csi::GetCapacityResponse;

use crate::intent::Segment;
use crate::server::ALPHA;

const DRIVER_NAME: &str = "csi.storage.k8s.io/drivername";
const MANAGED_BY: &str = "csi.storage.k8s.io/managed-by";
const MANAGER: &str = "external-provisioner";
/// The longest value of a label.
const LONGEST_LABEL: usize = 63;

/// Of drivers without topology.
pub(super) const EVERYWHERE: Segment = BTreeMap::new();

/// One object: a class in a part of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) class: String,
    pub(super) segment: Segment,
}

/// What an object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) capacity: i64,
    pub(super) largest: Option<i64>,
}

impl Spot {
    /// Unique among the objects of a driver.
    pub(super) fn key(&self) -> String {
        let segment = self.segment.iter();
        let segment: Vec<_> = segment
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        format!("{} {}", self.class, segment.join(","))
    }

    /// Reads an object. `None`: it has a selector that we do not write.
    pub(super) fn read(object: &Value) -> Option<Self> {
        let class = object["storageClassName"].as_str()?.to_owned();
        let topology = &object["nodeTopology"];
        if !topology["matchExpressions"].is_null() {
            return None;
        }
        let labels = topology["matchLabels"].as_object();
        let label =
            |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let segment = labels.into_iter().flatten().map(label);
        Some(Self {
            class,
            segment: segment.collect::<Option<_>>()?,
        })
    }
}

/// A negative capacity.
#[derive(Debug, thiserror::Error)]
#[error("the driver reports a capacity of {0} bytes, which is not possible")]
pub(super) struct NegativeCapacity(i64);

impl Free {
    /// Reads the driver's answer. The alpha objects have no field for the largest volume: there it is a limit.
    pub(super) fn of(
        answer: &GetCapacityResponse,
        version: &str,
    ) -> Result<Self, NegativeCapacity> {
        let available = answer.available_capacity;
        let largest = answer.maximum_volume_size.filter(|largest| *largest > 0);
        if available < 0 {
            return Err(NegativeCapacity(available));
        }
        Ok(if version == ALPHA {
            Self {
                capacity: largest.unwrap_or(available).min(available),
                largest: None,
            }
        } else {
            Self {
                capacity: available,
                largest,
            }
        })
    }

    pub(super) fn read(object: &Value) -> Option<Self> {
        let bytes = |field: &str| quantity::size(object[field].as_str()?).ok();
        Some(Self {
            capacity: bytes("capacity")?,
            largest: bytes("maximumVolumeSize"),
        })
    }

    /// What changes an object.
    pub(super) fn patch(&self, uid: &str) -> Value {
        let mut patch = self.fields();
        patch["metadata"] = json!({ "uid": uid });
        patch
    }

    fn fields(&self) -> Value {
        json!({
            "capacity": quantity::text(self.capacity),
            "maximumVolumeSize": self.largest.map(quantity::text),
        })
    }
}

/// A new object.
pub(super) fn object(
    spot: &Spot,
    free: &Free,
    labels: &BTreeMap<String, String>,
    owner: Option<&OwnerReference>,
) -> Value {
    let mut object = free.fields();
    object["metadata"] = json!({
        "generateName": "csisc-",
        "labels": labels,
        "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
    });
    object["storageClassName"] = json!(spot.class);
    object["nodeTopology"] = json!({ "matchLabels": spot.segment });
    object
}

/// The labels by which objects are known as ours. With a controller on every node, each has its own.
pub(super) fn labels(driver: &str, node: Option<&str>) -> BTreeMap<String, String> {
    let manager = match node {
        None => MANAGER.to_owned(),
        Some(node) => manager_on(node),
    };
    BTreeMap::from([
        (DRIVER_NAME.to_owned(), driver.to_owned()),
        (MANAGED_BY.to_owned(), manager),
    ])
}

/// Names that are too long for a label are cut, with a hash in place of what is missing, as upstream does.
fn manager_on(node: &str) -> String {
    let name = format!("{MANAGER}-{node}");
    if name.len() <= LONGEST_LABEL {
        return name;
    }
    let hash = fnv1a(&name);
    let mut short = match LONGEST_LABEL.checked_sub(10 + node.len()) {
        // A label begins with a letter, so one must be left.
        Some(room @ 1..) => format!("{}-{hash:x}-{node}", &MANAGER[..room.min(MANAGER.len())]),
        _ => format!("{MANAGER}-{hash:x}"),
    };
    short.truncate(LONGEST_LABEL);
    short
}

/// FNV-1a with 32 bits.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot() -> Spot {
        Spot {
            class: "fast".to_owned(),
            segment: Segment::from([("zone".to_owned(), "a".to_owned())]),
        }
    }

    #[test]
    fn an_object_is_read_as_it_is_written() {
        let free = Free {
            capacity: 5 << 30,
            largest: Some(1 << 30),
        };
        for spot in [
            spot(),
            Spot {
                segment: EVERYWHERE,
                ..spot()
            },
        ] {
            let object = object(&spot, &free, &labels("d", None), None);
            assert_eq!(Spot::read(&object), Some(spot));
            assert_eq!(Free::read(&object), Some(free.clone()));
            assert_eq!(object["metadata"]["generateName"], "csisc-");
            let labels = &object["metadata"]["labels"];
            assert_eq!(labels[MANAGED_BY], "external-provisioner");
            assert_eq!(labels[DRIVER_NAME], "d");
        }
    }

    #[test]
    fn a_selector_of_somebody_else_is_not_taken_for_ours() {
        let mut object = object(
            &spot(),
            &Free {
                capacity: 0,
                largest: None,
            },
            &BTreeMap::new(),
            None,
        );
        object["nodeTopology"]["matchExpressions"] = json!([{"key": "a", "operator": "Exists"}]);
        assert_eq!(Spot::read(&object), None);
    }

    #[test]
    fn the_capacity_of_alpha_objects_is_at_most_the_largest_volume() {
        let answer = GetCapacityResponse {
            available_capacity: 10,
            maximum_volume_size: Some(4),
            ..GetCapacityResponse::default()
        };
        let free = |version| Free::of(&answer, version).unwrap();
        assert_eq!((free(ALPHA).capacity, free(ALPHA).largest), (4, None));
        let new = free("storage.k8s.io/v1");
        assert_eq!((new.capacity, new.largest), (10, Some(4)));
        let negative = GetCapacityResponse {
            available_capacity: -1,
            ..GetCapacityResponse::default()
        };
        assert!(Free::of(&negative, ALPHA).is_err());
    }

    #[test]
    fn managers_on_nodes_fit_into_a_label() {
        assert_eq!(manager_on("n1"), "external-provisioner-n1");
        for length in 40..200 {
            let name = manager_on(&"n".repeat(length));
            assert!(
                name.len() <= LONGEST_LABEL && name.starts_with('e'),
                "{name}"
            );
        }
        assert_ne!(manager_on(&"n".repeat(100)), manager_on(&"n".repeat(101)));
        // From the definition of FNV-1a, 32 bits.
        assert_eq!(fnv1a("foobar"), 0xbf9c_f968);
    }
}
