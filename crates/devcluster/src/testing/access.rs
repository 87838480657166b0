//! Clients that may do little: the API server's authority gives each a certificate, RBAC gives it rules.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::ApiServer;
use crate::error::{Doing, Result};
use crate::pki::Subject;
use crate::process::wait_until;

/// What a user may do, in all namespaces.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    /// API groups; the core group is `""`.
    pub groups: &'a [&'a str],
    /// Resources, as in `persistentvolumeclaims` or `persistentvolumeclaims/status`.
    pub resources: &'a [&'a str],
    /// Verbs.
    pub verbs: &'a [&'a str],
}

impl ApiServer {
    /// A kubeconfig of a user who may do what `rules` say and what everybody may.
    pub fn user(&self, name: &str, rules: &[Rule]) -> Result<PathBuf> {
        let kubeconfig = self.kubeconfig_of(name)?;
        self.allow(name, rules)?;
        Ok(kubeconfig)
    }

    /// A kubeconfig of a user to whom no rule is added. A ServiceAccount is the user
    /// `system:serviceaccount:<namespace>:<name>`, and has what its RoleBindings give it. Called twice: the same.
    pub fn kubeconfig_of(&self, user: &str) -> Result<PathBuf> {
        let subject = Subject {
            common_name: user,
            ..Subject::default()
        };
        let file = format!("user-{user}");
        // Tests of several processes may ask for one user at a time: a key belongs to its certificate.
        let lock = File::create(self.place.join("users.lock"));
        let _turn = lock
            .and_then(|lock| lock.lock().map(|()| lock))
            .doing(|| "cannot lock the users of an API server".to_owned())?;
        self.authority
            .kubeconfig(&file, &self.endpoints.url(), &subject)
    }

    /// Sets what a user may do, and waits until new rules are in force. Called twice: the last rules count.
    pub fn allow(&self, user: &str, rules: &[Rule]) -> Result<()> {
        let name = format!("test:{user}");
        let written: Vec<_> = rules
            .iter()
            .map(|rule| {
                json!({"apiGroups": rule.groups, "resources": rule.resources, "verbs": rule.verbs})
            })
            .collect();
        let group = "rbac.authorization.k8s.io";
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": format!("{group}/v1"),
                "kind": "ClusterRole",
                "metadata": {"name": name},
                "rules": written,
            },
            {
                "apiVersion": format!("{group}/v1"),
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
            },
        ]});
        self.kubectl_with_input(&["apply", "-f", "-"], &list.to_string())?;
        // The server learns of them by a watch of its own, both at about the same time.
        match rules.last() {
            Some(rule) => self.wait_allowed(user, rule),
            None => Ok(()),
        }
    }

    fn wait_allowed(&self, user: &str, rule: &Rule) -> Result<()> {
        let (Some(verb), Some(resource)) = (rule.verbs.first(), rule.resources.first()) else {
            return Ok(());
        };
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let group = rule.groups.first().copied().unwrap_or_default();
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": {
                "group": group, "resource": resource, "subresource": part, "verb": verb,
            }},
        })
        .to_string();
        let limit = Duration::from_secs(10);
        let ask = ["create", "-f", "-", "-o", "jsonpath={.status.allowed}"];
        wait_until("rules of a user", limit, Path::new("-"), || {
            Ok(self.kubectl_with_input(&ask, &review)? == "true")
        })
    }
}
