//! The storage network, and the addresses that a node has.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, fs, io};

/// Flags of an IPv6 address that is not for others to rely on: temporary, in doubt, or going.
const PASSING: u32 = 0x01 | 0x08 | 0x20 | 0x40;

/// The scope of an address that is known on its own link only.
const LINK: &str = "20";

/// A network in CIDR form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

/// What is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a network: write one such as 10.1.0.0/16 or fd00:1::/64")]
pub struct NotANetwork(String);

impl FromStr for Network {
    type Err = NotANetwork;

    /// Bits after the prefix do not matter.
    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let wrong = || NotANetwork(text.to_owned());
        let (address, prefix) = text.trim().split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        let first = masked(address, prefix).ok_or_else(wrong)?;
        Ok(Self { first, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.first, self.prefix)
    }
}

/// The first address of the network that an address is in; none if no address has so many bits.
fn masked(address: IpAddr, prefix: u8) -> Option<IpAddr> {
    let free = |bits: u8| bits.checked_sub(prefix).map(u32::from);
    Some(match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(free(32)?).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(free(128)?).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    })
}

impl Network {
    /// Whether an address is in it.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4()
            && masked(address, self.prefix) == Some(self.first)
    }
}

/// Why a node has no address in the storage network.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// None of its addresses is in it.
    #[error(
        "no address of this node is in the storage network {network}, it has {}: correct --storage-network, or give the node an address there",
        shown(own)
    )]
    Elsewhere {
        /// The network.
        network: Network,
        /// The addresses that it has.
        own: BTreeSet<IpAddr>,
    },
    /// Nobody tells which it has.
    #[error("the addresses of this node cannot be read from {}", path.display())]
    Unreadable {
        /// From where.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

fn shown(addresses: &BTreeSet<IpAddr>) -> String {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    match addresses.as_slice() {
        [] => "none".to_owned(),
        some => some.join(", "),
    }
}

/// The address of the node in a network: the one that is `known`, if it still has it, or else the lowest.
pub fn choose(
    network: Network,
    own: BTreeSet<IpAddr>,
    known: Option<IpAddr>,
) -> Result<IpAddr, AddressError> {
    let mut inside = own.iter().copied().filter(|it| network.contains(*it));
    let first = inside.next();
    let kept = known.filter(|known| network.contains(*known) && own.contains(known));
    kept.or(first)
        .ok_or(AddressError::Elsewhere { network, own })
}

/// The addresses that a node has, as its kernel tells in this directory (`net` of a process).
pub fn own_addresses(directory: &Path) -> Result<BTreeSet<IpAddr>, AddressError> {
    let read = |name: &str| {
        let path = directory.join(name);
        fs::read_to_string(&path).map_err(|source| AddressError::Unreadable { path, source })
    };
    let mut own = in_routes(&read("fib_trie")?);
    // Not there where the kernel has no IPv6.
    if directory.join("if_inet6").exists() {
        own.extend(in_interfaces(&read("if_inet6")?));
    }
    Ok(own)
}

/// IPv4 addresses, in the table of routes: each is a leaf, followed by a line that says that it is the machine's own.
fn in_routes(table: &str) -> BTreeSet<IpAddr> {
    let mut own = BTreeSet::new();
    let mut leaf = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse::<IpAddr>().ok();
        } else if line.starts_with("/32 host LOCAL") {
            own.extend(leaf);
        }
    }
    own
}

/// IPv6 addresses, in the list of interfaces: address, interface, prefix, scope, flags, name.
fn in_interfaces(list: &str) -> BTreeSet<IpAddr> {
    let address = |line: &str| -> Option<IpAddr> {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [address, _, _, scope, flags, ..] = columns.as_slice() else {
            return None;
        };
        let flags = u32::from_str_radix(flags, 16).ok()?;
        let address = u128::from_str_radix(address, 16).ok()?;
        let is_lasting = *scope != LINK && flags & PASSING == 0;
        is_lasting.then(|| Ipv6Addr::from_bits(address).into())
    };
    list.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> BTreeSet<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn networks_are_read_and_what_is_none_is_named() {
        for (text, shown, inside, outside) in [
            ("10.1.0.0/16", "10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.2.3/16", "10.1.0.0/16", "10.1.0.0", "::ffff:10.1.0.1"),
            (" 0.0.0.0/0 ", "0.0.0.0/0", "192.0.2.1", "::1"),
            ("10.1.0.7/32", "10.1.0.7/32", "10.1.0.7", "10.1.0.8"),
            (
                "fd00:1::7/64",
                "fd00:1::/64",
                "fd00:1::1:2:3:4",
                "fd00:2::1",
            ),
            ("fd00::1/128", "fd00::1/128", "fd00::1", "10.1.0.7"),
        ] {
            let network: Network = text.parse().unwrap();
            assert_eq!(network.to_string(), shown);
            assert!(network.contains(inside.parse().unwrap()), "{text} {inside}");
            assert!(
                !network.contains(outside.parse().unwrap()),
                "{text} {outside}"
            );
        }
        for text in [
            "",
            "10.1.0.0",
            "10.1.0.0/33",
            "10.1/16",
            "storage/16",
            "fd00::/129",
            "10.1.0.0/-1",
        ] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("`{text}` is not a network")),
                "{error}"
            );
        }
    }

    #[test]
    fn the_address_in_the_network_is_the_nodes_and_stays_while_it_has_it() {
        let network: Network = "10.1.0.0/16".parse().unwrap();
        let own = || addresses(&["10.1.0.9", "10.1.0.7", "192.0.2.2", "fd00::2"]);
        let chosen = |known: Option<&str>| {
            choose(network, own(), known.map(|it| it.parse().unwrap()))
                .unwrap()
                .to_string()
        };
        assert_eq!(chosen(None), "10.1.0.7");
        assert_eq!(chosen(Some("10.1.0.9")), "10.1.0.9");
        assert_eq!(
            chosen(Some("192.0.2.2")),
            "10.1.0.7",
            "it is in another network"
        );
        assert_eq!(
            chosen(Some("10.1.0.1")),
            "10.1.0.7",
            "it has that no longer"
        );
        let elsewhere: Network = "10.9.0.0/16".parse().unwrap();
        let error = choose(elsewhere, own(), None).unwrap_err().to_string();
        assert_eq!(
            error,
            "no address of this node is in the storage network 10.9.0.0/16, it has 10.1.0.7, 10.1.0.9, 192.0.2.2, \
             fd00::2: correct --storage-network, or give the node an address there"
        );
    }

    #[test]
    fn the_kernel_tells_which_addresses_a_node_has() {
        let routes = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.1.0.0\n\
            \x20          /16 link UNICAST\n           |-- 10.1.0.7\n              /32 host LOCAL\n        |-- 10.1.255.255\n\
            \x20          /32 link BROADCAST\nLocal:\n           |-- 10.1.0.7\n              /32 host LOCAL\n";
        assert_eq!(in_routes(routes), addresses(&["10.1.0.7"]));
        let interfaces = "fe80000000000000000000fffe000001 04 40 20 80     eth0\n\
            fd000000000000000000000000000002 04 40 00 82     eth0\n\
            fd000000000000000000000000000003 04 40 00 01     eth0\n";
        assert_eq!(in_interfaces(interfaces), addresses(&["fd00::2"]));
        let here = own_addresses(Path::new("/proc/self/net")).unwrap();
        assert!(
            here.contains(&IpAddr::from(Ipv4Addr::LOCALHOST)),
            "{here:?}"
        );
    }
}
