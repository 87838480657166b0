//! What the kernel tells of the Weka client on this machine: is its module loaded, are its containers connected.

use std::collections::BTreeSet;

/// The module that serves `mount -t wekafs`.
const MODULE: &str = "wekafsgw";

/// The client as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frontends {
    /// The module is loaded.
    module: bool,
    connected: BTreeSet<String>,
    disconnected: BTreeSet<String>,
}

/// Why nothing can be mounted here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(
        "no Weka client runs on this node: the kernel module `{MODULE}` is not loaded; install and start the Weka client"
    )]
    NoModule,
    #[error("the Weka client of this node has no container that is connected{}: check `weka local ps` on the node", listed(.0))]
    NotConnected(Vec<String>),
    #[error("container `{wanted}` of the Weka client is not connected on this node (connected: {})", connected.join(", "))]
    ContainerMissing {
        wanted: String,
        connected: Vec<String>,
    },
    #[error(
        "this node's Weka client has several containers ({}), and nothing says which one is of this cluster: set `localContainerName` in the secret, or --wekafscontainername",
        .0.join(", ")
    )]
    Ambiguous(Vec<String>),
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        String::new()
    } else {
        format!(" ({} are not)", names.join(", "))
    }
}

impl Frontends {
    /// Reads `/proc/modules` and `/proc/wekafs/interface`; the second is absent where no client ever ran.
    pub(crate) fn parse(modules: &str, interface: &str) -> Self {
        let module = modules
            .lines()
            .any(|line| line.split_whitespace().next() == Some(MODULE));
        let mut frontends = Self {
            module,
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
        if !self.module {
            return Err(ClientError::NoModule);
        }
        if self.connected.is_empty() {
            return Err(ClientError::NotConnected(
                self.disconnected.iter().cloned().collect(),
            ));
        }
        Ok(())
    }

    /// The containers that are connected.
    pub(crate) fn connected(&self) -> impl Iterator<Item = &str> {
        self.connected.iter().map(String::as_str)
    }

    /// The container to mount through: the one that was configured, or the only one.
    ///
    /// `of_cluster` are the names that the cluster knows for this machine, where it was asked.
    pub(crate) fn choose(
        &self,
        configured: Option<&str>,
        of_cluster: Option<&BTreeSet<String>>,
    ) -> Result<String, ClientError> {
        self.check()?;
        let connected = || self.connected.iter().cloned().collect::<Vec<_>>();
        if let Some(wanted) = configured {
            return if self.connected.contains(wanted) {
                Ok(wanted.to_owned())
            } else {
                Err(ClientError::ContainerMissing {
                    wanted: wanted.to_owned(),
                    connected: connected(),
                })
            };
        }
        let candidates: Vec<_> = match of_cluster {
            Some(names) => self.connected.intersection(names).cloned().collect(),
            None => connected(),
        };
        match candidates.as_slice() {
            [only] => Ok(only.clone()),
            _ => Err(ClientError::Ambiguous(connected())),
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
        let cluster = BTreeSet::from(["b".to_owned(), "z".to_owned()]);
        assert_eq!(two.choose(None, Some(&cluster)), Ok("b".to_owned()));
        assert!(two.choose(Some("c"), None).is_err(), "c is not connected");
        assert!(two.choose(None, Some(&BTreeSet::new())).is_err());
    }
}
