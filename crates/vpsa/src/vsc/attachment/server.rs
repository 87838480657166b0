//! Which Server record is a node's.
//!
//! A node has one on each array, with its address and its initiator. An array changes no record that volumes are attached to:
//! where the address of a node changes while it has disks, its shares get a second record with the new one.

use std::net::IpAddr;

use stowage_api::vpsa::{AttachType, VscNodeSpec};

use crate::rest::wire::Server;

/// Ends of names of second records.
const FOR_DISKS: &str = "-iscsi";
const FOR_SHARES: &str = "-nfs";

/// How arrays know a node. What it does not have is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host<'a> {
    /// The name of its Server records.
    pub name: &'a str,
    /// Its address in the storage network.
    pub ip: &'a str,
    /// Its name among iSCSI initiators.
    pub iqn: &'a str,
}

impl<'a> Host<'a> {
    /// As a VSCNode says.
    pub fn of(node: &'a VscNodeSpec) -> Self {
        Self {
            name: &node.display_name,
            ip: node.nas.as_ref().map_or("", |it| it.ip.as_str()),
            iqn: node.block.as_ref().map_or("", |it| it.iqn.as_str()),
        }
    }

    /// Whether a Server record that nobody has recorded is this node's: people, or somebody who died before recording it,
    /// may have made it. The name alone proves nothing, because other clusters have nodes of the same name.
    pub fn is(self, server: &Server) -> bool {
        (!self.iqn.is_empty() && self.has_initiator_of(server))
            || (!self.ip.is_empty() && server.iqn.is_empty() && self.has_address_of(server))
    }

    /// Whether what is attached to a Server record can be reached from this node.
    pub fn is_reached_by(self, server: &Server, attach_type: &AttachType) -> bool {
        match attach_type {
            AttachType::Iscsi => self.has_initiator_of(server),
            AttachType::Nfs | AttachType::Other(_) => self.has_address_of(server),
        }
    }

    /// Whether two nodes have one initiator.
    pub fn shares_initiator(self, other: Host<'_>) -> bool {
        !self.iqn.is_empty() && self.iqn.eq_ignore_ascii_case(other.iqn)
    }

    /// Whether two nodes have one address in the storage network.
    pub fn shares_address(self, other: Host<'_>) -> bool {
        !self.ip.is_empty() && is_same_address(self.ip, other.ip)
    }

    /// Names of initiators are the same in capital letters.
    fn has_initiator_of(self, server: &Server) -> bool {
        self.iqn.eq_ignore_ascii_case(&server.iqn)
    }

    /// Arrays may write an address in another way than they were told.
    fn has_address_of(self, server: &Server) -> bool {
        is_same_address(self.ip, address(server))
    }

    /// Why a volume cannot be reached from this node at all.
    pub fn lack(self, attach_type: &AttachType) -> Option<&'static str> {
        match attach_type {
            AttachType::Iscsi if self.iqn.is_empty() => Some(
                "the node has no IQN: install open-iscsi there, and restart the driver's pod on it",
            ),
            AttachType::Nfs if self.ip.is_empty() => {
                Some("the node has no address in the storage network: correct --storage-network")
            }
            AttachType::Other(_) => Some("`attachType` must be NFS or ISCSI"),
            AttachType::Iscsi | AttachType::Nfs => None,
        }
    }
}

/// Of several records of a node the one that is best for a volume: that it is reached by, or else the first.
pub fn best(records: Vec<Server>, host: Host<'_>, attach_type: &AttachType) -> Option<Server> {
    let mut rest = records.into_iter();
    let first = rest.next()?;
    if host.is_reached_by(&first, attach_type) {
        return Some(first);
    }
    let reached = rest.find(|it| host.is_reached_by(it, attach_type));
    Some(reached.unwrap_or(first))
}

/// The name of the second record of a node, for volumes of one kind only.
pub fn second_name(node: &str, attach_type: &AttachType) -> String {
    match attach_type {
        AttachType::Iscsi => format!("{node}{FOR_DISKS}"),
        AttachType::Nfs | AttachType::Other(_) => format!("{node}{FOR_SHARES}"),
    }
}

/// Whether a record has the name of a node, as those have that were made for it.
pub fn is_named_after(server: &Server, node: &str) -> bool {
    let rest = server.display_name.strip_prefix(node);
    rest.is_some_and(|rest| ["", FOR_DISKS, FOR_SHARES].contains(&rest))
}

fn is_same_address(own: &str, its: &str) -> bool {
    let same = own.parse::<IpAddr>().ok().zip(its.parse::<IpAddr>().ok());
    same.map_or(own == its, |(own, its)| own == its)
}

/// The address of a Server record that is for one host.
fn address(server: &Server) -> &str {
    let ip = server.iscsi_ip.as_str();
    let single = ip.strip_suffix("/32").or_else(|| ip.strip_suffix("/128"));
    single.unwrap_or(ip)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOST: Host<'_> = Host {
        name: "n",
        ip: "10.0.0.1",
        iqn: "iqn.n",
    };

    fn server(ip: &str, iqn: &str) -> Server {
        let server = json!({"name": "srv-1", "display_name": "n", "iscsi_ip": ip, "iqn": iqn});
        serde_json::from_value(server).unwrap()
    }

    #[test]
    fn a_record_is_a_nodes_by_its_initiator_or_its_address_and_never_by_its_name() {
        for (ip, iqn, expected) in [
            ("10.0.0.1", "iqn.n", true),
            ("10.0.0.9", "iqn.n", true),
            ("10.0.0.1/32", "", true),
            ("10.0.0.1", "iqn.other", false),
            ("10.0.0.0/24", "", false),
            ("10.0.0.9", "", false),
        ] {
            assert_eq!(HOST.is(&server(ip, iqn)), expected, "{ip} {iqn}");
        }
        let bare = Host {
            ip: "",
            iqn: "",
            ..HOST
        };
        assert!(!bare.is(&server("", "")));
        assert!(bare.lack(&AttachType::Iscsi).is_some() && bare.lack(&AttachType::Nfs).is_some());
    }

    #[test]
    fn of_several_records_the_one_that_serves_is_the_best() {
        let (old, new) = (server("10.0.0.9", "iqn.n"), server("10.0.0.1", ""));
        let pick = |records: &[&Server], attach_type| {
            let records = records.iter().map(|it| (*it).clone()).collect();
            best(records, HOST, &attach_type).map(|it| it.iscsi_ip)
        };
        let both = [&old, &new];
        assert_eq!(pick(&both, AttachType::Nfs).as_deref(), Some("10.0.0.1"));
        assert_eq!(pick(&both, AttachType::Iscsi).as_deref(), Some("10.0.0.9"));
        assert_eq!(pick(&[&old], AttachType::Nfs).as_deref(), Some("10.0.0.9"));
        assert_eq!(pick(&[], AttachType::Nfs), None);
        for (name, node, expected) in [
            ("n", "n", true),
            (&second_name("n", &AttachType::Nfs), "n", true),
            (&second_name("n", &AttachType::Iscsi), "n", true),
            ("n-2", "n", false),
            ("n-nfs", "n-nfs", true),
        ] {
            let named = Server {
                display_name: name.to_owned(),
                ..old.clone()
            };
            assert_eq!(is_named_after(&named, node), expected, "{name}");
        }
    }

    #[test]
    fn a_record_is_good_if_it_has_what_the_volume_needs() {
        let record = server("10.0.0.9", "iqn.n");
        assert!(HOST.is_reached_by(&record, &AttachType::Iscsi));
        assert!(!HOST.is_reached_by(&record, &AttachType::Nfs));
        assert!(HOST.is_reached_by(&server("10.0.0.1/32", ""), &AttachType::Nfs));
        let other_spelling = server("FD00:0:0::1/128", "IQN.N");
        let host = Host {
            ip: "fd00::1",
            ..HOST
        };
        for attach_type in [AttachType::Nfs, AttachType::Iscsi] {
            assert!(host.is_reached_by(&other_spelling, &attach_type));
        }
    }
}
