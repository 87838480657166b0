//! What the kernel reports about the Weka client on this machine: is its module loaded, are its containers connected.

use std::collections::BTreeSet;

/// The module that serves `mount -t wekafs`.
const MODULE: &str = "wekafsgw";

/// The remedy where a node is not a client of a cluster.
pub(crate) const OTHER_NODE: &str = "run the pod (or, for claims, the driver's controller) on a node that is a client of it, or make this node one";

/// The client as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Frontends {
    module: Module,
    /// The report has text, but says nothing about containers, as those of some releases do.
    nameless: bool,
    connected: BTreeSet<String>,
    disconnected: BTreeSet<String>,
}

/// The kernel module of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Module {
    Loaded,
    NotLoaded,
    /// The kernel takes no modules.
    Impossible,
}

/// The containers of a cluster, as the cluster lists them.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    /// What people call the cluster.
    pub(crate) cluster: String,
    /// The clients that it knows to be on this machine.
    pub(crate) here: BTreeSet<String>,
    /// All it has, on any machine.
    pub(crate) anywhere: BTreeSet<String>,
}

/// Why nothing can be mounted here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(
        "no Weka client runs on this node: the kernel module `{MODULE}` is not loaded; install and start the Weka client"
    )]
    NoModule,
    #[error(
        "no Weka client can run on this node: its kernel takes no modules (there is no list of them in /proc), and the client is one; {OTHER_NODE}"
    )]
    NoModules,
    #[error("this node's Weka client has no connected container{}: check `weka local ps` on the node", listed(.0))]
    NotConnected(Vec<String>),
    #[error("container `{wanted}` of this node's Weka client is not connected (connected: {}): check `weka local ps` on the node", connected.join(", "))]
    ContainerMissing {
        wanted: String,
        connected: Vec<String>,
    },
    #[error(
        "this node's Weka client has several containers ({}), and nothing says which one belongs to this cluster: set `localContainerName` in the secret, or --wekafscontainername",
        .0.join(", ")
    )]
    Ambiguous(Vec<String>),
    #[error(
        "this node is not a client of Weka cluster `{cluster}`: none of its containers ({}) belongs to that cluster; {OTHER_NODE}",
        connected.join(", ")
    )]
    OtherCluster {
        cluster: String,
        connected: Vec<String>,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        String::new()
    } else {
        format!(" (disconnected: {})", names.join(", "))
    }
}

/// Whether a report is of a client that does not list its containers. An empty one is of a client that is not there, and
/// one that speaks of a frontend without a name is still believed when it says that there is no connection.
fn says_nothing_of_containers(interface: &str) -> bool {
    !interface.trim().is_empty()
        && !interface.contains("Container=")
        && !interface.contains("not connected")
}

impl Frontends {
    /// Reads `/proc/modules`, which not every kernel has, and `/proc/wekafs/interface`, which is absent where no client
    /// ever ran.
    pub(crate) fn parse<'a>(modules: impl Into<Option<&'a str>>, interface: &str) -> Self {
        let is_client = |line: &str| line.split_whitespace().next() == Some(MODULE);
        let module = match modules.into() {
            None => Module::Impossible,
            Some(modules) if modules.lines().any(is_client) => Module::Loaded,
            Some(_) => Module::NotLoaded,
        };
        let mut frontends = Self {
            module,
            nameless: says_nothing_of_containers(interface),
            connected: BTreeSet::new(),
            disconnected: BTreeSet::new(),
        };
        for line in interface.lines() {
            // `Container=<name> FE <n>: Connected frontend pid <pid>`, or `... Frontend is not connected`.
            let Some((_, rest)) = line.split_once("Container=") else {
                continue;
            };
            let Some(name) = rest.split_whitespace().next() else {
                continue;
            };
            let name = name.trim_end_matches([',', ':']).to_owned();
            if rest.contains("Connected frontend") {
                frontends.connected.insert(name);
            } else {
                frontends.disconnected.insert(name);
            }
        }
        // A container with several frontends is usable as long as one is connected.
        let connected = &frontends.connected;
        frontends
            .disconnected
            .retain(|name| !connected.contains(name));
        frontends
    }

    /// Whether anything can be mounted.
    pub(crate) fn check(&self) -> Result<(), ClientError> {
        match self.module {
            Module::Loaded => {}
            Module::NotLoaded => return Err(ClientError::NoModule),
            Module::Impossible => return Err(ClientError::NoModules),
        }
        if self.connected.is_empty() && !self.nameless {
            return Err(ClientError::NotConnected(
                self.disconnected.iter().cloned().collect(),
            ));
        }
        Ok(())
    }

    /// Whether nothing is known of containers: then a mount shows whether the client works, and names none.
    pub(crate) fn is_nameless(&self) -> bool {
        self.nameless
    }

    /// The containers that are connected.
    pub(crate) fn connected(&self) -> impl Iterator<Item = &str> {
        self.connected.iter().map(String::as_str)
    }

    /// The container to mount through: the one that was configured, the one that the cluster has here, or the only one.
    ///
    /// Machines and the cluster may have different names for a machine, so a container that the cluster has anywhere is
    /// taken if there is no other. One that it has nowhere is of another cluster, and so would be its files.
    pub(crate) fn choose(
        &self,
        configured: Option<&str>,
        of_cluster: Option<&Containers>,
    ) -> Result<String, ClientError> {
        self.check()?;
        let connected = || self.connected.iter().cloned().collect::<Vec<_>>();
        if let Some(wanted) = configured
            && !self.connected.contains(wanted)
        {
            return Err(ClientError::ContainerMissing {
                wanted: wanted.to_owned(),
                connected: connected(),
            });
        }
        let mut candidates = match configured {
            Some(wanted) => vec![wanted.to_owned()],
            None => connected(),
        };
        if let Some(known) = of_cluster {
            // All that it has here lead to it: any of them will do, and always the same one.
            if let Some(here) = candidates.iter().find(|name| known.here.contains(*name)) {
                return Ok(here.clone());
            }
            // What it has nowhere is of another cluster.
            candidates.retain(|name| known.anywhere.contains(name));
            if candidates.is_empty() {
                if let Some(down) = self.disconnected.intersection(&known.anywhere).next() {
                    return Err(ClientError::ContainerMissing {
                        wanted: down.clone(),
                        connected: connected(),
                    });
                }
                return Err(ClientError::OtherCluster {
                    cluster: known.cluster.clone(),
                    connected: connected(),
                });
            }
        }
        match candidates.as_slice() {
            [only] => Ok(only.clone()),
            _ => Err(ClientError::Ambiguous(candidates)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULES: &str = "nf_tables 200704 0 - Live 0x0\nwekafsgw 50000 2 wekafsio, Live 0x0\nwekafsio 1 0 - Live 0x0\n";
    const ONE: &str = "Container=client FE 0: Connected frontend pid 4711\n";
    const TWO: &str = "Container=a FE 0: Connected frontend pid 1\nContainer=b FE 0: Connected frontend pid 2\nContainer=c FE 0: Frontend is not connected\n";

    #[test]
    fn a_client_needs_its_module_and_one_connected_container() {
        assert_eq!(Frontends::parse(MODULES, ONE).check(), Ok(()));
        assert_eq!(
            Frontends::parse("ext4 1 0 - Live 0x0\n", ONE).check(),
            Err(ClientError::NoModule)
        );
        assert_eq!(
            Frontends::parse(None, "").check(),
            Err(ClientError::NoModules)
        );
        // Another module whose name begins alike.
        assert_eq!(
            Frontends::parse("wekafsgw2 1 0 - Live 0x0\n", ONE).check(),
            Err(ClientError::NoModule)
        );
        let none = Frontends::parse(MODULES, "");
        assert_eq!(none.check(), Err(ClientError::NotConnected(vec![])));
        let dead = Frontends::parse(
            MODULES,
            "Container=client FE 0: Frontend is not connected\n",
        );
        assert_eq!(
            dead.check(),
            Err(ClientError::NotConnected(vec!["client".to_owned()]))
        );
    }

    #[test]
    fn a_client_that_does_not_list_its_containers_is_believed_unless_it_says_otherwise() {
        for (interface, usable) in [
            ("wekafs driver interface\n", true),
            ("FE 0: Connected frontend pid 4711\n", true),
            ("FE 0: Frontend is not connected\n", false),
            ("\n", false),
        ] {
            let frontends = Frontends::parse(MODULES, interface);
            assert_eq!(frontends.check().is_ok(), usable, "{interface}");
            assert_eq!(frontends.is_nameless(), usable, "{interface}");
        }
        assert!(!Frontends::parse(MODULES, TWO).is_nameless());
    }

    #[test]
    fn one_disconnected_frontend_of_several_does_not_matter() {
        let text = "Container=a FE 0: Connected frontend pid 1\nContainer=a FE 1: Frontend is not connected\n";
        let frontends = Frontends::parse(MODULES, text);
        assert_eq!(frontends.check(), Ok(()));
        assert_eq!(frontends.connected().collect::<Vec<_>>(), ["a"]);
        assert_eq!(Frontends::parse(MODULES, TWO).check(), Ok(()));
    }

    #[test]
    fn the_container_is_the_configured_or_the_only_one() {
        let one = Frontends::parse(MODULES, ONE);
        assert_eq!(one.choose(None, None), Ok("client".to_owned()));
        assert_eq!(one.choose(Some("client"), None), Ok("client".to_owned()));
        let error = one.choose(Some("other"), None).unwrap_err();
        assert!(error.to_string().contains("`other`"), "{error}");
        let two = Frontends::parse(MODULES, TWO);
        let error = two.choose(None, None).unwrap_err();
        assert!(error.to_string().contains("localContainerName"), "{error}");
        assert!(two.choose(Some("c"), None).is_err(), "c is not connected");
    }

    fn containers(here: &[&str], anywhere: &[&str]) -> Containers {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Containers {
            cluster: "east".to_owned(),
            here: set(here),
            anywhere: set(anywhere),
        }
    }

    #[test]
    fn a_container_of_another_cluster_is_never_mounted_through() {
        let one = Frontends::parse(MODULES, ONE);
        let two = Frontends::parse(MODULES, TWO);
        let ours = containers(&["b", "z"], &["a", "b", "z"]);
        assert_eq!(two.choose(None, Some(&ours)), Ok("b".to_owned()));
        let both = containers(&["a", "b"], &["a", "b"]);
        assert_eq!(two.choose(None, Some(&both)), Ok("a".to_owned()));
        // The cluster calls this machine something else, and knows the name of one of its containers only.
        let named = containers(&[], &["b", "drives0"]);
        assert_eq!(two.choose(None, Some(&named)), Ok("b".to_owned()));
        let foreign = containers(&[], &["drives0", "east"]);
        for refused in [
            one.choose(None, Some(&foreign)),
            one.choose(Some("client"), Some(&foreign)),
            two.choose(None, Some(&foreign)),
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, ClientError::OtherCluster { .. }), "{error}");
            assert!(error.to_string().contains("`east`"), "{error}");
        }
        // Its own container is there, but cut off.
        let cut_off = two
            .choose(None, Some(&containers(&[], &["c"])))
            .unwrap_err();
        assert!(cut_off.to_string().contains("`c`"), "{cut_off}");
        // The cluster calls this machine something else.
        let elsewhere = containers(&[], &["client", "a", "b"]);
        assert_eq!(one.choose(None, Some(&elsewhere)), Ok("client".to_owned()));
        assert!(matches!(
            two.choose(None, Some(&elsewhere)),
            Err(ClientError::Ambiguous(_))
        ));
    }
}
