//! What the API server was asked by the user under measurement, counted in its audit log: neither side can forget a
//! request, and nobody else's are in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The user whose requests are counted: the sidecar, and the bare client, so that both are treated alike.
pub const USER: &str = "measured";

const POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata", "users": ["measured"]}, {"level": "None"}]
}"#;

/// The API server's audit log.
pub struct AuditLog(PathBuf);

/// Requests by verb and resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests(BTreeMap<(String, String), usize>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    verb: String,
    #[serde(default, rename = "requestURI")]
    uri: String,
    #[serde(default)]
    object_ref: Object,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    resource: String,
    subresource: String,
}

impl AuditLog {
    /// One in `directory`, and the arguments with which the API server writes it.
    pub fn in_directory(directory: &Path) -> anyhow::Result<(Self, Vec<String>)> {
        let (policy, log) = (directory.join("audit-policy"), directory.join("audit.log"));
        fs::write(&policy, POLICY)?;
        let arguments = vec![
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", log.display()),
        ];
        Ok((Self(log), arguments))
    }

    /// Where it ends now: what is counted from here on is new.
    pub fn end(&self) -> u64 {
        fs::metadata(&self.0).map_or(0, |file| file.len())
    }

    /// What was asked since.
    pub fn since(&self, begin: u64) -> anyhow::Result<Requests> {
        let text = fs::read(&self.0)?;
        let begin = usize::try_from(begin)?;
        Ok(Requests::read(text.get(begin..).unwrap_or_default()))
    }
}

impl Requests {
    fn read(log: &[u8]) -> Self {
        let mut counts = BTreeMap::new();
        // The last line may not be complete yet.
        let entries = log.split(|byte| *byte == b'\n');
        for entry in entries.filter_map(|line| serde_json::from_slice::<Entry>(line).ok()) {
            let object = entry.object_ref;
            let resource = match object.subresource.as_str() {
                "" => object.resource,
                part => format!("{}/{part}", object.resource),
            };
            let verb = if entry.uri.contains("dryRun=") {
                DRY_RUN.to_owned()
            } else {
                entry.verb
            };
            *counts.entry((verb, resource)).or_default() += 1;
        }
        Self(counts)
    }

    /// Writes, without events. Questions about rights are asked by a create, but nothing is stored.
    pub fn writes(&self) -> usize {
        self.count(|verb, resource| {
            is_write(verb) && resource != "events" && resource != "selfsubjectaccessreviews"
        })
    }

    /// Writes that were only tried out.
    pub fn dry_runs(&self) -> usize {
        self.count(|verb, _| verb == DRY_RUN)
    }

    /// Writes of leases: the journal, and elections.
    pub fn lease_writes(&self) -> usize {
        self.count(|verb, resource| is_write(verb) && resource == "leases")
    }

    /// Events, new ones and repeated ones.
    pub fn events(&self) -> usize {
        self.count(|verb, resource| is_write(verb) && resource == "events")
    }

    /// Single objects and lists that were read. Watches are not counted: they are there once.
    pub fn reads(&self) -> usize {
        self.count(|verb, _| matches!(verb, "get" | "list"))
    }

    /// Every kind of request with its number, for people who want to know.
    pub fn summary(&self) -> String {
        let shown = |((verb, resource), count): (&(String, String), &usize)| {
            format!("{count} {verb} {resource}")
        };
        self.0.iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    fn count(&self, wanted: impl Fn(&str, &str) -> bool) -> usize {
        let wanted = self.0.iter().filter(|((verb, kind), _)| wanted(verb, kind));
        wanted.map(|(_, count)| count).sum()
    }
}

/// In place of the verb.
const DRY_RUN: &str = "dry-run";

fn is_write(verb: &str) -> bool {
    matches!(
        verb,
        "create" | "update" | "patch" | "delete" | "deletecollection"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_by_verb_and_resource() {
        let log = br#"{"verb":"create","objectRef":{"resource":"persistentvolumes"}}
{"verb":"update","objectRef":{"resource":"leases","name":"x"}}
{"verb":"create","objectRef":{"resource":"events"}}
{"verb":"patch","objectRef":{"resource":"volumeattachments","subresource":"status"}}
{"verb":"create","requestURI":"/x?dryRun=All","objectRef":{"resource":"persistentvolumes"}}
{"verb":"create","objectRef":{"resource":"selfsubjectaccessreviews"}}
{"verb":"list","objectRef":{"resource":"nodes"}}
{"verb":"get"}
{"verb":"watch","objectRef":{"resource":"nodes"}}
{"verb":"create","objec"#;
        let requests = Requests::read(log);
        assert_eq!(requests.writes(), 3);
        assert_eq!(requests.dry_runs(), 1);
        assert_eq!(requests.lease_writes(), 1);
        assert_eq!(requests.events(), 1);
        assert_eq!(requests.reads(), 2);
        assert!(
            requests
                .summary()
                .contains("1 patch volumeattachments/status"),
            "{}",
            requests.summary()
        );
    }

    #[test]
    fn the_policy_counts_the_user_that_is_measured() {
        let policy: serde_json::Value = serde_json::from_str(POLICY).unwrap();
        assert_eq!(policy["rules"][0]["users"][0], USER);
    }
}
