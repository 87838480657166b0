//! Errors of a cluster that cannot be reached or refuses, for people: one sentence with a remedy.
//!
//! Parse errors of kube carry excerpts of what they parsed. A kubeconfig and the answer of a login
//! plugin contain secrets, so only the position of such an error is passed on.

use std::error::Error;
use std::io;

use anyhow::anyhow;
use kube::client::AuthError;
use kube::config::{InClusterError, KubeconfigError};

use super::{Cluster, Origin};

/// The kubeconfig cannot be used.
pub fn kubeconfig(origin: &Origin, error: &KubeconfigError) -> anyhow::Error {
    match error {
        KubeconfigError::ReadConfig(cause, path) => anyhow!(
            "cannot read the kubeconfig `{}` ({cause}): give a readable file with --kubeconfig or KUBECONFIG",
            path.display()
        ),
        KubeconfigError::Parse(cause) => {
            let place = cause
                .location()
                .map(|at| format!(" at line {}, column {}", at.line(), at.column()))
                .unwrap_or_default();
            anyhow!(
                "{origin} is not a valid kubeconfig{place}: repair it or give another with --kubeconfig"
            )
        }
        KubeconfigError::CurrentContextNotSet => {
            anyhow!("{origin} has no current context: choose one with --context NAME")
        }
        KubeconfigError::LoadContext(name) => anyhow!(
            "{origin} has no context `{name}`: `kubectl config get-contexts` lists those it has"
        ),
        KubeconfigError::LoadClusterOfContext(name) => anyhow!(
            "{origin} has no cluster `{name}`, which its context refers to: choose another with --context NAME"
        ),
        other => anyhow!(
            "{origin} cannot be used ({other}): repair it or give another with --kubeconfig"
        ),
    }
}

/// The account that Kubernetes gives to every pod cannot be used.
pub fn pod(error: &InClusterError) -> anyhow::Error {
    anyhow!(
        "the pod's service account cannot be used ({error}): set automountServiceAccountToken in the \
         pod or give --kubeconfig FILE"
    )
}

/// The credentials cannot be turned into a client.
pub fn client(origin: &Origin, error: &kube::Error) -> anyhow::Error {
    if let Some(login) = find::<AuthError>(error) {
        return anyhow!(
            "cannot log in with {origin} ({}): log in again",
            login_failure(login)
        );
    }
    anyhow!(
        "{origin} cannot be used ({}): repair its certificates or give another with --kubeconfig",
        root_cause(error)
    )
}

/// A request failed for any reason but a missing right to read one resource, for which see [`denied`].
pub fn request(cluster: &Cluster, what: &str, error: &kube::Error) -> anyhow::Error {
    let Cluster { url, origin, .. } = cluster;
    match error {
        kube::Error::Api(status) if status.code == 401 => anyhow!(
            "the API server at {url} does not accept the credentials of {origin}: log in again or choose \
             another user with --context"
        ),
        kube::Error::Api(status) if status.code == 403 => {
            anyhow!("the API server at {url} does not let this account {what}: ask for that right")
        }
        kube::Error::Api(status) => anyhow!(
            "the API server at {url} could not {what} (code {}: {}): try again later",
            status.code,
            status.message.trim_end()
        ),
        kube::Error::SerdeError(cause) => anyhow!(
            "the server at {url} is not a Kubernetes API server ({cause}): check the address in {origin}"
        ),
        other => match find::<AuthError>(other) {
            Some(login) => anyhow!(
                "cannot log in with {origin} ({}): log in again",
                login_failure(login)
            ),
            None if is_about_certificates(other) => anyhow!(
                "cannot trust the API server at {url} ({}): check the certificate authority in {origin}",
                root_cause(other)
            ),
            None => anyhow!(
                "cannot reach the API server at {url} ({}): check that it runs and that {origin} is for this cluster",
                root_cause(other)
            ),
        },
    }
}

/// The account may not do this to these resources, each as `plural.group`. The commands that grant it make the ClusterRole `role`.
pub fn denied(
    role: &str,
    verb: &str,
    resources: &[String],
    account: Option<&str>,
) -> anyhow::Error {
    // The name goes into a command line that is meant to be copied.
    let plain = |name: &&str| {
        name.chars()
            .all(|c| c.is_ascii_alphanumeric() || ":._@-".contains(c))
    };
    let who = account.map_or_else(|| "this account".to_owned(), |name| format!("`{name}`"));
    let user = account.filter(plain).unwrap_or("NAME");
    anyhow!(
        "{who} may not {verb} {}: grant it with `kubectl create clusterrole {role} --verb={verb} \
         --resource={}` and `kubectl create clusterrolebinding {role} --clusterrole={role} --user={user}`",
        resources.join(", "),
        resources.join(",")
    )
}

/// The account that a "forbidden" answer names.
pub fn account_in(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("User \"")?;
    Some(rest.split_once('"')?.0)
}

/// What a login plugin was called with and what it printed may be secret; its last words on stderr are
/// for people.
fn login_failure(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => {
            let stderr = String::from_utf8_lossy(&out.stderr);
            let last = stderr.lines().rfind(|line| !line.trim().is_empty());
            format!(
                "its login plugin ended with {}: {}",
                out.status,
                last.unwrap_or("no message")
            )
        }
        AuthError::AuthExecParse(_) => "its login plugin's answer cannot be read".to_owned(),
        other => other.to_string(),
    }
}

/// The error and everything below it.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // An io::Error hides the error it was made from behind that one's own source.
        match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// Ours or the server's: an alert is what the server sends if it does not like what we showed.
fn is_about_certificates(error: &(dyn Error + 'static)) -> bool {
    matches!(
        find(error),
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_))
    )
}

/// The innermost error: the outer ones only say that something below them went wrong.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    chain(error).last().unwrap_or(error).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_named_with_the_command_that_grants_it() {
        let message = r#"nodes is forbidden: User "system:serviceaccount:ci:viewer" cannot list resource "nodes" in API group "" at the cluster scope"#;
        let resources = ["nodes".to_owned(), "csinodes.storage.k8s.io".to_owned()];
        assert_eq!(
            denied("stowage-status", "list", &resources, account_in(message)).to_string(),
            "`system:serviceaccount:ci:viewer` may not list nodes, csinodes.storage.k8s.io: grant it with \
             `kubectl create clusterrole stowage-status --verb=list --resource=nodes,csinodes.storage.k8s.io` and \
             `kubectl create clusterrolebinding stowage-status --clusterrole=stowage-status \
             --user=system:serviceaccount:ci:viewer`"
        );
    }

    #[test]
    fn an_account_name_that_a_shell_would_misread_stays_out_of_the_command() {
        let text = denied("r", "list", &["nodes".to_owned()], Some("a; rm -rf /")).to_string();
        assert!(
            text.starts_with("`a; rm -rf /` may not list nodes"),
            "{text}"
        );
        assert!(text.ends_with("--user=NAME`"), "{text}");
    }

    #[test]
    fn a_broken_kubeconfig_is_reported_without_what_is_in_it() {
        let text = "users:\n- name: u\n  user:\n    token: [s3cret\n";
        let error = kube::config::Kubeconfig::from_yaml(text).unwrap_err();
        let told = kubeconfig(&Origin::Flag("k.conf".into()), &error).to_string();
        assert!(!told.contains("s3cret"), "{told}");
        assert!(!told.contains('\n'), "{told}");
        assert!(
            told.starts_with("the kubeconfig `k.conf` is not a valid kubeconfig at line "),
            "{told}"
        );
    }

    #[test]
    fn the_innermost_cause_is_found_through_io_errors() {
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let text = unknown.to_string();
        let outer = kube::Error::ReadEvents(io::Error::other(io::Error::other(unknown)));
        assert!(is_about_certificates(&outer));
        assert_eq!(root_cause(&outer), text);
    }
}
