//! Addresses of a cluster, as pure arithmetic on its index, and the `ip` batches that make them real.
//!
//! Everything comes from 198.18.0.0/15, the range set aside for tests of networks: it never shadows an
//! address of the user's own network. Each cluster has a /19 of it:
//!
//! | part of the /19 | for |
//! |---|---|
//! | `.0.0/24` | hub `.1`, the machine itself `.2`, nodes from `.10` |
//! | `.4.0/22` | services |
//! | `.8.0/24` and up | pods, a /24 per node |

use std::net::Ipv4Addr;
use std::process::Command;

use crate::error::{Doing, Result, refused};
use crate::process::{Namespaces, capture, feed};

/// How many clusters fit side by side.
pub const CLUSTERS: u8 = 16;
/// How many nodes fit into one.
pub const NODES: usize = 24;

/// The range of one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    index: u8,
}

impl Network {
    /// The `index`-th range, below [`CLUSTERS`].
    pub fn new(index: u8) -> Self {
        Self { index }
    }

    /// The lowest range that neither `taken` nor the machine's own routes and links use.
    pub fn pick(taken: &[u8]) -> Result<Self> {
        let (links, routes) = links_and_routes()?;
        let free =
            |index: &u8| !taken.contains(index) && Self::new(*index).is_free(&links, &routes);
        match (0..CLUSTERS).find(free) {
            Some(index) => Ok(Self::new(index)),
            None => refused(
                "all 16 address ranges for clusters (198.18.0.0/15) are in use on this machine: take one down \
                 with `./x down --cluster NAME`",
            ),
        }
    }

    /// Refuses if something that is not ours sits where the cluster's link or addresses belong.
    pub fn check_free(self) -> Result<()> {
        let (links, routes) = links_and_routes()?;
        if self.is_free(&links, &routes) {
            return Ok(());
        }
        refused(format!(
            "link `{}` or addresses of {} are in use by something else: remove that, or run `./x down` and `./x \
             up` to move to another range",
            self.link(),
            self.range()
        ))
    }

    fn is_free(self, links: &str, routes: &str) -> bool {
        let link = format!(" {}", self.link());
        let link_taken = links
            .lines()
            .any(|line| line.split([':', '@']).any(|word| word == link));
        // Anything but a default route that touches our /19, broader routes included.
        let route_taken = routes
            .split_whitespace()
            .filter_map(parse_prefix)
            .any(|(base, length)| length > 0 && self.overlaps(base, length));
        !link_taken && !route_taken
    }

    fn overlaps(self, base: u32, length: u8) -> bool {
        let shorter = length.min(19);
        let mask = u32::MAX << (32 - u32::from(shorter));
        base & mask == u32::from(self.address(0, 0)) & mask
    }

    /// Which range it is.
    pub fn index(self) -> u8 {
        self.index
    }

    /// The machine's link into the cluster.
    pub fn link(self) -> String {
        format!("stow{}", self.index)
    }

    /// Removes the machine's link and with it its other end. A hub that was killed keeps it for minutes: sockets
    /// that wait for an answer hold its namespace. Called twice: the second call finds nothing.
    pub fn remove_link(self) -> Result<()> {
        match self.remove_own_link() {
            // The namespace of the hub may end at any moment, and takes the link with it.
            Err(_) if self.show_link(&["-o", "link", "show"]).is_err() => Ok(()),
            outcome => outcome,
        }
    }

    /// Somebody else's link of that name stays, and is reported when the cluster needs its place.
    fn remove_own_link(self) -> Result<()> {
        let details = self.show_link(&["-d", "-o", "link", "show"])?;
        let addresses = self.show_link(&["-4", "-o", "addr", "show"])?;
        let ours = format!(" {}/", self.machine());
        if details.contains(" veth ") && addresses.lines().all(|line| line.contains(&ours)) {
            capture(Command::new("ip").args(["link", "delete", &self.link()]))?;
        }
        Ok(())
    }

    fn show_link(self, what: &[&str]) -> Result<String> {
        capture(Command::new("ip").args(what).args(["dev", &self.link()]))
    }

    /// Control plane and registry.
    pub fn hub(self) -> Ipv4Addr {
        self.address(0, 1)
    }

    /// The machine itself, as the cluster sees it.
    pub fn machine(self) -> Ipv4Addr {
        self.address(0, 2)
    }

    /// The address of a node.
    pub fn node(self, node: usize) -> Ipv4Addr {
        self.address(0, 10 + octet(node))
    }

    /// The pods of a node.
    pub fn pods(self, node: usize) -> String {
        format!("{}/24", self.address(8 + octet(node), 0))
    }

    /// All services.
    pub fn services(self) -> String {
        format!("{}/22", self.address(4, 0))
    }

    /// The service `kubernetes`.
    pub fn api_service(self) -> Ipv4Addr {
        self.address(4, 1)
    }

    fn range(self) -> String {
        format!("{}/19", self.address(0, 0))
    }

    fn address(self, third: u8, fourth: u8) -> Ipv4Addr {
        let first = u32::from(Ipv4Addr::new(198, 18, 0, 0));
        let offset = u32::from(self.index) << 13 | u32::from(third) << 8 | u32::from(fourth);
        Ipv4Addr::from(first + offset)
    }

    /// Inside the hub: a bridge for all nodes, and no way out.
    pub fn hub_batch(self) -> String {
        format!(
            "link set lo up\n\
             link add name br0 type bridge\n\
             addr add {hub}/24 dev br0\n\
             link set br0 up\n\
             route add unreachable default\n\
             route add unreachable {services}\n",
            hub = self.hub(),
            services = self.services(),
        )
    }

    /// Inside the hub: the machine's own link, its other end given to the machine (process 1).
    pub fn machine_link_batch(self, machine: nix::unistd::Pid) -> String {
        format!(
            "link add name machine type veth peer name {link} netns {machine}\n\
             link set machine master br0 up\n",
            link = self.link(),
        )
    }

    /// On the machine.
    pub fn machine_batch(self) -> String {
        format!(
            "addr add {address}/24 dev {link}\nlink set {link} up\n",
            address = self.machine(),
            link = self.link(),
        )
    }

    /// Inside the hub: a node's cable, its other end given to the node, and the way to its pods.
    pub fn cable_batch(self, node: usize, name: &str, init: nix::unistd::Pid) -> String {
        format!(
            "link add name {name} type veth peer name eth0 netns {init}\n\
             link set {name} master br0 up\n\
             route replace {pods} via {address}\n",
            pods = self.pods(node),
            address = self.node(node),
        )
    }

    /// Inside a node: its address, services and other nodes' pods through the bridge, and no way out. With a
    /// default route kubelet would ask a cloud's metadata address and look names up outside.
    pub fn node_batch(self, node: usize) -> String {
        let mut batch = format!(
            "link set lo up\n\
             addr add {address}/24 dev eth0\n\
             link set eth0 up\n\
             route add unreachable default\n\
             route add {services} via {hub}\n",
            address = self.node(node),
            services = self.services(),
            hub = self.hub(),
        );
        for other in (0..NODES).filter(|other| *other != node) {
            batch.push_str(&format!(
                "route add {} via {}\n",
                self.pods(other),
                self.node(other)
            ));
        }
        batch
    }
}

/// What the machine has already, as `ip` prints it.
fn links_and_routes() -> Result<(String, String)> {
    let ip = |arguments: &[&str]| capture(Command::new("ip").args(arguments));
    let links = ip(&["-o", "link"])?;
    Ok((links, ip(&["-4", "-o", "route", "show", "table", "all"])?))
}

/// In the network of a process: gives up on sockets whose peer was killed, which would keep it alive for minutes.
pub fn forget_orphans_quickly(within: Namespaces) -> Result<()> {
    let setting = "/proc/sys/net/ipv4/tcp_orphan_retries";
    within.enter(|| std::fs::write(setting, "1").doing(|| format!("cannot write `{setting}`")))
}

/// Runs an `ip` batch, in the network of a process or on the machine itself.
pub fn ip_batch(batch: &str, within: Option<Namespaces>) -> Result<()> {
    let run = || feed(Command::new("ip").args(["-batch", "-"]), batch).map(drop);
    match within {
        Some(namespaces) => namespaces.enter(run),
        None => run(),
    }
}

fn octet(node: usize) -> u8 {
    u8::try_from(node).unwrap_or(u8::MAX)
}

fn parse_prefix(word: &str) -> Option<(u32, u8)> {
    let (address, length) = word.split_once('/').unwrap_or((word, "32"));
    let address: Ipv4Addr = address.parse().ok()?;
    Some((u32::from(address), length.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_do_not_overlap() {
        let (first, last) = (Network::new(0), Network::new(CLUSTERS - 1));
        assert_eq!(first.hub().to_string(), "198.18.0.1");
        assert_eq!(first.services(), "198.18.4.0/22");
        assert_eq!(first.pods(NODES - 1), "198.18.31.0/24");
        assert_eq!(Network::new(1).hub().to_string(), "198.18.32.1");
        assert_eq!(last.hub().to_string(), "198.19.224.1");
        assert_eq!(last.pods(NODES - 1), "198.19.255.0/24");
    }

    #[test]
    fn a_range_in_use_is_not_picked() {
        let third = Network::new(2);
        assert!(third.is_free(
            "1: lo: <UP>",
            "default via 192.0.2.1\n192.0.2.0/24 dev eth0"
        ));
        assert!(third.is_free("", "198.18.32.0/24 dev stow1"));
        assert!(!third.is_free("", "198.18.65.7 dev tun0"));
        assert!(!third.is_free("", "198.18.0.0/15 dev vpn0"));
        assert!(!third.is_free("7: stow2@if6: <UP>", ""));
        assert!(third.is_free("7: stow21@if6: <UP>", ""));
    }
}
