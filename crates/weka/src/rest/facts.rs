//! What a cluster is: its identity, its release, and who we are there.

use std::net::IpAddr;
use std::time::Instant;

use secrecy::SecretString;

use super::call::{Call, Failure};
use super::client::Client;
use super::endpoint::Endpoint;
use super::wire::{Cluster, Process, WhoAmI};
use super::{ApiError, Deadline};
use crate::version::{Capability, Release};

/// Roles that can change nothing we need to change. Any other, also one nobody has seen yet, may try.
const READERS: [&str; 3] = ["ReadOnly", "Regular", "S3"];

/// The role made for drivers like this one.
const CSI_ROLE: &str = "CSI";

const ROOT_ORGANIZATION: &str = "Root";

/// What is known of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) guid: String,
    pub(crate) name: String,
    pub(crate) release: Release,
    /// Old clusters do not report it.
    pub(crate) role: Option<String>,
    pub(crate) learned: Instant,
}

impl Facts {
    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.release.has(capability)
    }

    /// Whether paths can be resolved by the API under our role.
    pub(crate) fn resolves_paths(&self) -> bool {
        match self.role.as_deref() {
            Some(CSI_ROLE) => self.has(Capability::ResolvePathAsCsiUser),
            Some(_) => self.has(Capability::ResolvePath),
            None => false,
        }
    }

    /// Refuses a user who could not finish what the driver is about to begin.
    pub(crate) fn check_may_write(&self, doing: &'static str) -> Result<(), ApiError> {
        match self.role.as_deref() {
            Some(role) if READERS.contains(&role) => Err(ApiError::Forbidden {
                doing,
                role: Some(role.to_owned()),
                message: "this role is read-only".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// An error that says from which release on something is possible.
    pub(crate) fn too_old(&self, what: &'static str, since: &'static str) -> ApiError {
        ApiError::TooOld {
            what,
            since,
            release: self.release.to_string(),
        }
    }
}

/// Asks the cluster about itself with a token that has just been given out.
pub(super) async fn learn(
    client: &Client,
    token: &SecretString,
    deadline: Deadline,
) -> Result<(), ApiError> {
    let call = Call::get("cluster", "cluster", "learn about the cluster");
    let cluster = match client.send(&call, None, Some(token), deadline).await {
        Ok(envelope) => envelope.data,
        Err(failure) => return Err(refusal(client, failure)),
    };
    let cluster: Cluster =
        serde_json::from_value(cluster).map_err(|error| ApiError::Malformed {
            doing: "learn about the cluster",
            reason: error.to_string(),
        })?;
    let call = Call::get("users/whoami", "users/whoami", "learn its own role");
    let role = match client.send(&call, None, Some(token), deadline).await {
        Ok(envelope) => {
            serde_json::from_value::<WhoAmI>(envelope.data)
                .unwrap_or_default()
                .role
        }
        // Old clusters have no such call.
        Err(Failure::Api(
            ApiError::Missing { .. } | ApiError::Refused { .. } | ApiError::Forbidden { .. },
        )) => None,
        Err(failure) => return Err(refusal(client, failure)),
    };
    let facts = Facts {
        guid: cluster.guid,
        name: cluster.name,
        release: Release::parse(&cluster.release),
        role,
        learned: Instant::now(),
    };
    if !facts.release.is_known() {
        tracing::warn!(release = %facts.release, "Cannot parse the cluster's release; using only what every release supports.");
    }
    let organization = &client.credentials.organization;
    if !organization.eq_ignore_ascii_case(ROOT_ORGANIZATION)
        && !facts.has(Capability::AuthenticatedMounts)
    {
        return Err(facts.too_old("an organization other than Root", "3.14"));
    }
    if client.credentials.auto_update_endpoints {
        update_endpoints(client, token, &facts, deadline).await;
    }
    client.learn(facts);
    Ok(())
}

/// Takes over the addresses of all backends. Those of the secret go on being used if that fails.
async fn update_endpoints(
    client: &Client,
    token: &SecretString,
    facts: &Facts,
    deadline: Deadline,
) {
    let path = if facts.has(Capability::Processes) {
        "processes"
    } else {
        "nodes"
    };
    let call = Call::get(path, path, "list the cluster's addresses");
    let processes = match client.send(&call, None, Some(token), deadline).await {
        Ok(envelope) => serde_json::from_value::<Vec<Process>>(envelope.data).unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let found = addresses(&processes);
    if found.is_empty() {
        tracing::warn!(
            "The cluster reports no addresses of its backends; using those of the secret."
        );
    }
    client.endpoints.replace(found);
}

fn addresses(processes: &[Process]) -> Vec<Endpoint> {
    let manages = |process: &&Process| {
        process.mode == "backend" && process.roles.iter().any(|role| role == "MANAGEMENT")
    };
    let mut found = Vec::new();
    for process in processes.iter().filter(manages) {
        let Ok(port) = u16::try_from(process.mgmt_port) else {
            continue;
        };
        let addresses = process
            .ips
            .iter()
            .filter_map(|ip| ip.parse::<IpAddr>().ok());
        for endpoint in addresses.map(|address| Endpoint::of_address(address, port)) {
            if port != 0 && !found.contains(&endpoint) {
                found.push(endpoint);
            }
        }
    }
    found
}

fn refusal(client: &Client, failure: Failure) -> ApiError {
    match failure {
        Failure::Api(error) => error,
        Failure::Unauthorized(message) => ApiError::Login {
            organization: client.credentials.organization.clone(),
            message,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(release: &str, role: Option<&str>) -> Facts {
        Facts {
            guid: "guid".to_owned(),
            name: "cluster".to_owned(),
            release: Release::parse(release),
            role: role.map(str::to_owned),
            learned: Instant::now(),
        }
    }

    #[test]
    fn paths_are_resolved_where_release_and_role_allow_it() {
        assert!(facts("4.3", Some("ClusterAdmin")).resolves_paths());
        assert!(!facts("4.2", Some("ClusterAdmin")).resolves_paths());
        assert!(!facts("4.4.6", Some("CSI")).resolves_paths());
        assert!(facts("4.4.7", Some("CSI")).resolves_paths());
        assert!(!facts("4.4.7", None).resolves_paths());
    }

    #[test]
    fn every_role_but_readers_may_try_to_write() {
        for role in [
            None,
            Some("CSI"),
            Some("ClusterAdmin"),
            Some("OrgAdmin"),
            Some("TenantAdmin"),
            Some("New"),
        ] {
            assert!(
                facts("5.0", role).check_may_write("set a quota").is_ok(),
                "{role:?}"
            );
        }
        for role in READERS {
            let error = facts("5.0", Some(role))
                .check_may_write("set a quota")
                .unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains(role) && text.contains("may not set a quota"),
                "{text}"
            );
        }
    }

    #[test]
    fn only_management_processes_of_backends_are_asked() {
        let process = |mode: &str, role: &str, ip: &str| Process {
            mode: mode.to_owned(),
            roles: vec![role.to_owned()],
            ips: vec![ip.to_owned()],
            mgmt_port: 14000,
            status: "UP".to_owned(),
        };
        let found = addresses(&[
            process("backend", "MANAGEMENT", "10.0.0.1"),
            process("backend", "MANAGEMENT", "fd00::1"),
            process("backend", "COMPUTE", "10.0.0.2"),
            process("client", "MANAGEMENT", "10.0.0.3"),
            process("backend", "MANAGEMENT", "10.0.0.1"),
        ]);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.1:14000", "[fd00::1]:14000"]);
    }
}
