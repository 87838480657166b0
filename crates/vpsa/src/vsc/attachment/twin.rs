//! Nodes that arrays take for one: clones of a machine have the initiator of the first. What is taken from one of them stays with the
//! other, so a fence does not hold, and a volume for one node is written by two.

use std::cmp::Reverse;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use stowage_api::vpsa::{AttachType, VscNode};

use super::how_to_forget;
use super::server::Host;
use crate::vsc::condition::Reason;

/// Why nothing new is attached to a node: another had its initiator, or its address, before. That of the other kind of volume does
/// not count.
pub fn reason<'a>(
    node: &VscNode,
    all: impl IntoIterator<Item = &'a VscNode>,
    attach_type: &AttachType,
) -> Option<Reason> {
    let own = Host::of(&node.spec);
    let is_disk = *attach_type == AttachType::Iscsi;
    let is_twin = |other: &&VscNode| {
        let its = Host::of(&other.spec);
        other.name_any() != node.name_any()
            && age(other) > age(node)
            && if is_disk {
                own.shares_initiator(its)
            } else {
                own.shares_address(its)
            }
    };
    let first = all.into_iter().filter(is_twin).max_by_key(|it| age(it))?;
    let (node, first) = (node.name_any(), first.name_any());
    let forget = how_to_forget(&first);
    Some(if is_disk {
        let message = format!(
            "node `{node}` has the initiator `{}`, which node `{first}` has: a VPSA takes both for one. Give `{node}` a name of its own in \
             /etc/iscsi/initiatorname.iscsi, and restart iscsid and the driver's pod there. {forget}",
            own.iqn
        );
        Reason::not_ready("DuplicateInitiator", message)
    } else {
        let message = format!(
            "node `{node}` has the address {}, which node `{first}` has: a VPSA takes both for one. Give `{node}` an address of its own in \
             the storage network (--storage-network), and restart the driver's pod there. {forget}",
            own.ip
        );
        Reason::not_ready("DuplicateAddress", message)
    })
}

/// Which was there first, whoever looks; more is earlier.
fn age(node: &VscNode) -> Reverse<(Option<&Time>, &str)> {
    let metadata = &node.metadata;
    Reverse((
        metadata.creation_timestamp.as_ref(),
        metadata.name.as_deref().unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, second: u8, ip: &str, iqn: &str) -> VscNode {
        let made = format!("2026-01-01T00:00:{second:02}Z");
        serde_json::from_value(json!({
            "apiVersion": "storage.zadara.com/v1", "kind": "VSCNode",
            "metadata": {"name": name, "creationTimestamp": made},
            "spec": {"displayName": name, "NAS": {"IP": ip}, "block": {"IQN": iqn}},
        }))
        .unwrap()
    }

    #[test]
    fn the_second_of_two_nodes_with_one_initiator_or_address_is_refused_and_both_are_named() {
        let first = node("first", 1, "10.0.0.1", "iqn.x:A");
        let clone = node("clone", 2, "10.0.0.2", "iqn.x:a");
        let third = node("third", 3, "10.0.0.1", "iqn.x:a");
        let bare = [node("b1", 4, "", ""), node("b2", 5, "", "")];
        let all = [&first, &clone, &third, &bare[0], &bare[1]];
        let word = |node: &VscNode, attach_type| {
            let reason = reason(node, all, &attach_type)?;
            for name in [node.name_any().as_str(), "`first`", "vscnode first"] {
                assert!(reason.message.contains(name), "{}", reason.message);
            }
            Some(reason.word)
        };
        for (node, disk, share) in [
            (&first, None, None),
            (&clone, Some("DuplicateInitiator"), None),
            (&third, Some("DuplicateInitiator"), Some("DuplicateAddress")),
            (&bare[1], None, None),
        ] {
            assert_eq!(word(node, AttachType::Iscsi), disk, "{node:?}");
            assert_eq!(word(node, AttachType::Nfs), share, "{node:?}");
        }
    }
}
