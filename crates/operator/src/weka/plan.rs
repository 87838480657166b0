//! Which drivers there should be, and who shares them. Pure: from all clients at once, so that it does not matter which
//! of them is looked at, or in which order.
//!
//! A driver is there as long as one client claims it. Of those who share one the oldest is its owner: the controller has
//! the owner's node selector and tolerations. A client whose driver cannot be determined holds the one that it has:
//! nothing is removed because a cluster object is missing for a moment.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt as _;
use stowage_api::weka::{WekaClient, WekaCluster};

use super::names::{Names, Origin, Scheme, csi_secret};
use super::problem::{Problem, Reason};
use crate::config::CsiConfig;

/// A client, and what has to be known about it.
#[derive(Clone, Debug)]
pub struct Claimant {
    /// The client.
    pub client: Arc<WekaClient>,
    /// The cluster that it joins.
    pub target: Target,
    /// Whether containers of it are left.
    pub has_containers: bool,
}

/// The cluster that a client joins.
#[derive(Clone, Debug)]
pub enum Target {
    /// It names none.
    None,
    /// It is there.
    Found(Arc<WekaCluster>),
    /// It is not there.
    Missing,
}

/// Namespace and name of an object, as keys and for people.
pub fn title<K: kube::Resource>(object: &K) -> String {
    format!(
        "{}/{}",
        object.namespace().unwrap_or_default(),
        object.name_any()
    )
}

/// What a client gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// None: switched off, or the client is as good as gone.
    Nothing,
    /// This driver.
    Driver(String),
    /// The one that it has, because of a problem.
    Held(Option<String>, Problem),
}

impl Claim {
    /// The driver, whether it can be changed now or not.
    pub fn driver(&self) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::Driver(driver) => Some(driver),
            Self::Held(driver, _) => driver.as_deref(),
        }
    }
}

/// A driver that is wanted.
#[derive(Clone, Debug)]
pub struct DriverPlan {
    /// Its names.
    pub names: Names,
    /// The clients that share it, the owner first.
    pub clients: Vec<Arc<WekaClient>>,
    /// The secret that its classes name: namespace and name.
    pub secret: (String, String),
}

impl DriverPlan {
    /// The client that decides where the controller runs.
    pub fn owner(&self) -> &WekaClient {
        &self.clients[0]
    }
}

/// What is wanted of all clients.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Drivers by name.
    pub drivers: BTreeMap<String, DriverPlan>,
    /// Drivers that are neither changed nor removed.
    pub held: BTreeSet<String>,
    /// What each client gets, by its title.
    pub claims: BTreeMap<String, Claim>,
}

impl Plan {
    /// From all clients.
    pub fn of(claimants: &[Claimant], csi: &CsiConfig) -> Self {
        let mut plan = Self::default();
        let mut wanted = Wanted::new();
        for claimant in claimants {
            match origin(claimant, csi) {
                Ok(None) => plan.answer(claimant, Claim::Nothing),
                Ok(Some(origin)) => {
                    let driver = origin.driver(csi.naming_scheme);
                    wanted.entry(driver).or_default().push((claimant, origin));
                }
                Err(problem) => plan.hold(claimant, problem),
            }
        }
        let mut meeting = meeting(&wanted, csi);
        for (driver, claims) in wanted {
            let wanted = match meeting.remove(&driver) {
                Some(problem) => Err(problem),
                None => driver_plan(&driver, &claims, csi.naming_scheme),
            };
            match wanted {
                Ok(wanted) => {
                    for (claimant, _) in claims {
                        plan.answer(claimant, Claim::Driver(driver.clone()));
                    }
                    plan.drivers.insert(driver, wanted);
                }
                Err(problem) => {
                    for (claimant, _) in claims {
                        plan.hold(claimant, problem.clone());
                    }
                    plan.held.insert(driver);
                }
            }
        }
        plan
    }

    /// What a client gets.
    pub fn claim(&self, client: &WekaClient) -> Claim {
        let claim = self.claims.get(&title(client));
        claim.cloned().unwrap_or(Claim::Nothing)
    }

    fn answer(&mut self, claimant: &Claimant, claim: Claim) {
        self.claims.insert(title(claimant.client.as_ref()), claim);
    }

    fn hold(&mut self, claimant: &Claimant, problem: Problem) {
        let status = claimant.client.status.as_ref();
        let deployed = status.and_then(|it| it.csi.as_ref());
        let deployed = deployed.map(|it| it.driver_name.clone());
        self.held.extend(deployed.clone());
        self.answer(claimant, Claim::Held(deployed, problem));
    }
}

/// Who wants which driver, and what it is called after.
type Wanted<'a> = BTreeMap<String, Vec<(&'a Claimant, Origin)>>;

/// What the driver of a client is called after; `None`: it has no driver.
fn origin(claimant: &Claimant, csi: &CsiConfig) -> Result<Option<Origin>, Problem> {
    let client = claimant.client.as_ref();
    let is_leaving = client.metadata.deletion_timestamp.is_some();
    // The driver stays until the last volume has been unmounted.
    if !csi.installation_enabled || (is_leaving && !claimant.has_containers) {
        return Ok(None);
    }
    let cluster = match &claimant.target {
        Target::None => None,
        Target::Found(cluster) => Some(cluster.as_ref()),
        Target::Missing => return Err(target_missing(client)),
    };
    if let Some(cluster) = cluster
        && cluster.metadata.deletion_timestamp.is_some()
    {
        let message = format!(
            "WekaCluster {} is being deleted: delete this WekaClient, or change its `spec.targetCluster`",
            title(cluster)
        );
        return Err(Problem::new(Reason::TargetClusterDeleting, message));
    }
    Ok(Some(Origin::of(client, cluster, csi.naming_scheme)))
}

fn target_missing(client: &WekaClient) -> Problem {
    let target = client.spec.target_cluster.clone().unwrap_or_default();
    let message = format!(
        "WekaCluster {}/{} does not exist: create it, or correct `spec.targetCluster`",
        target.namespace, target.name
    );
    Problem::new(Reason::TargetClusterMissing, message)
}

/// The driver that these clients share, if they belong together.
fn driver_plan(
    driver: &str,
    claims: &[(&Claimant, Origin)],
    scheme: Scheme,
) -> Result<DriverPlan, Problem> {
    let names = Names::of(driver, scheme);
    let names = names.map_err(|it| Problem::new(Reason::NameInvalid, it.to_string()))?;
    let origins: BTreeSet<_> = claims.iter().map(|(_, origin)| origin).collect();
    if origins.len() > 1 {
        return Err(conflict(driver, claims));
    }
    let mut clients: Vec<_> = claims
        .iter()
        .map(|(claimant, _)| Arc::clone(&claimant.client))
        .collect();
    clients.sort_by_key(|client| {
        let metadata = &client.metadata;
        (
            metadata.deletion_timestamp.is_some(),
            metadata.creation_timestamp.as_ref().map(|it| it.0),
            title(client.as_ref()),
        )
    });
    let secret = csi_secret(&clients[0], scheme);
    Ok(DriverPlan {
        names,
        clients,
        secret,
    })
}

fn conflict(driver: &str, claims: &[(&Claimant, Origin)]) -> Problem {
    let message = format!(
        "several come to the driver name `{driver}`: {}; clients share a driver only with the same `csiGroup`, the same \
         cluster or the same `csiDriverName`: change one of them",
        shown(claims)
    );
    Problem::new(Reason::NameConflict, message)
}

/// The clients of a driver, and what it is called after.
fn shown(claims: &[(&Claimant, Origin)]) -> String {
    let shown = claims.iter().map(|(claimant, origin)| {
        let client = title(claimant.client.as_ref());
        format!("WekaClient {client} by {}", origin.shown())
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Drivers of different names of which an object would have the same name: one of them would go without it, and its
/// pods would run with the account of the other.
fn meeting(wanted: &Wanted<'_>, csi: &CsiConfig) -> BTreeMap<String, Problem> {
    let classes = if csi.storage_class_creation_disabled {
        &[]
    } else {
        csi.storage_classes.as_slice()
    };
    let mut drivers_of: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for driver in wanted.keys() {
        let names = Names::of(driver, csi.naming_scheme);
        for object in names.iter().flat_map(|names| names.objects(classes)) {
            drivers_of.entry(object).or_default().push(driver);
        }
    }
    drivers_of.retain(|_, drivers| drivers.len() > 1);
    let mut problems = BTreeMap::new();
    for (object, drivers) in drivers_of {
        let who = drivers.iter().map(|driver| {
            let clients = shown(&wanted[*driver]);
            format!("driver `{driver}` of {clients}")
        });
        let message = format!(
            "several drivers would have the {object}: {}; change the `csiGroup`, the `csiDriverName` or the cluster of one \
             of them",
            who.collect::<Vec<_>>().join("; ")
        );
        for driver in drivers {
            let problem = || Problem::new(Reason::NameConflict, message.clone());
            problems.entry(driver.clone()).or_insert_with(problem);
        }
    }
    problems
}
