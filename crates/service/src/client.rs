//! The Kubernetes client: from a kubeconfig, or from inside a pod.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, io};

use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// After this a connection on which the server owes us something is taken for dead. A firewall or load balancer that forgot
/// it says nothing, and nor does TCP for a quarter of an hour. Servers give up after a minute at the latest.
pub const SILENCE: Duration = Duration::from_secs(40);

/// How the API server is reached.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct KubeArgs {
    /// Kubeconfig file; without it the pod's service account is used, outside of pods `~/.kube/config`
    #[arg(
        long,
        help_heading = "Kubernetes",
        env = "KUBECONFIG",
        value_name = "PATH"
    )]
    pub kubeconfig: Option<OsString>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file is not there, or may not be read.
    #[error("kubeconfig `{}` cannot be read: check the path given with --kubeconfig or KUBECONFIG", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is not a kubeconfig, or not a complete one.
    #[error("kubeconfig `{}` cannot be used: {reason}; compare it with `kubectl config view`", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, without the file's content: it holds credentials.
        reason: String,
    },
    /// Neither a kubeconfig nor a pod.
    #[error("no cluster is configured: give --kubeconfig, set KUBECONFIG, or run inside a pod")]
    NoCluster,
    /// A pod without a usable service account.
    #[error(
        "the pod's service account cannot be used: check serviceAccountName and automountServiceAccountToken"
    )]
    ServiceAccount(#[source] InClusterError),
    /// The configuration was read but no client can be made of it, for example because a certificate is damaged.
    #[error(
        "cannot make a Kubernetes client from the configuration: check its certificates and proxy"
    )]
    Unusable(#[source] Box<kube::Error>),
}

impl KubeArgs {
    /// Reads the configuration. Nothing is sent to the cluster yet.
    pub async fn config(&self) -> Result<Config, ClientError> {
        // Upstream's flags default to the empty text, and manifests spell that out.
        if let Some(paths) = self.kubeconfig.as_ref().filter(|paths| !paths.is_empty()) {
            return from_files(env::split_paths(paths).collect()).await;
        }
        if env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
            return Config::incluster().map_err(ClientError::ServiceAccount);
        }
        match env::home_dir().map(|home| home.join(".kube/config")) {
            Some(path) if path.exists() => from_files(vec![path]).await,
            _ => Err(ClientError::NoCluster),
        }
    }
}

/// Several files are merged as kubectl does it: the first to say something wins.
async fn from_files(paths: Vec<PathBuf>) -> Result<Config, ClientError> {
    let Some(first) = paths.first().cloned() else {
        return Err(ClientError::NoCluster);
    };
    let mut merged = Kubeconfig::default();
    for path in paths {
        merged = Kubeconfig::read_from(&path)
            .and_then(|next| merged.merge(next))
            .map_err(|error| explain(error, &path))?;
    }
    Config::from_custom_kubeconfig(merged, &KubeConfigOptions::default())
        .await
        .map_err(|error| explain(error, &first))
}

fn explain(error: KubeconfigError, path: &Path) -> ClientError {
    let path = path.to_owned();
    let reason = match error {
        KubeconfigError::ReadConfig(source, path) => {
            return ClientError::Unreadable { path, source };
        }
        // The parser shows the lines around the error, and these hold keys and tokens.
        KubeconfigError::Parse(_) => "it is not the YAML of a kubeconfig".to_owned(),
        KubeconfigError::CurrentContextNotSet => "it has no current-context".to_owned(),
        KubeconfigError::LoadContext(name) => format!("its context `{name}` is missing or empty"),
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("the cluster of context `{name}` is missing")
        }
        other => other.to_string(),
    };
    ClientError::Invalid { path, reason }
}

/// Makes a client for ordinary work. Must be called inside a tokio runtime.
pub fn connect(config: Config) -> Result<Client, ClientError> {
    install_crypto_provider();
    Client::try_from(config).map_err(|error| ClientError::Unusable(Box::new(error)))
}

/// Makes a client for work that lasts: a connection that went silent is given up after [`SILENCE`], also one that waits in
/// the pool. What it watches must say something more often than that.
pub fn connect_for_work(mut config: Config) -> Result<Client, ClientError> {
    config.read_timeout = Some(SILENCE);
    config.write_timeout = Some(SILENCE);
    // A connection of the pool may have been silent for a while when it is used again.
    config.reset_reader_on_write = true;
    connect(config)
}

/// Makes a client that reports 429, 503 and 504 at once. By default the client retries these for minutes: a lease
/// would be lost meanwhile without anybody knowing, and nobody would learn which budget admits no eviction.
pub fn connect_without_retry(mut config: Config) -> Result<Client, ClientError> {
    config.default_retry = false;
    connect(config)
}

/// Makes ring the process's TLS cryptography. Called twice: the first one stays.
pub fn install_crypto_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const GOOD: &str = "
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me, namespace: mine}}]
clusters: [{name: here, cluster: {server: 'https://127.0.0.1:6443'}}]
users: [{name: me, user: {token: very-secret}}]
";

    async fn config_of(text: &str) -> Result<Config, ClientError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, text).unwrap();
        KubeArgs {
            kubeconfig: Some(file.path().into()),
        }
        .config()
        .await
    }

    #[tokio::test]
    async fn a_kubeconfig_names_server_and_namespace() {
        let config = config_of(GOOD).await.unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://127.0.0.1:6443/");
        assert_eq!(config.default_namespace, "mine");
        connect_without_retry(config).unwrap();
    }

    #[tokio::test]
    async fn a_missing_file_is_one_sentence_with_path_and_remedy() {
        let args = KubeArgs {
            kubeconfig: Some("/nowhere/kubeconfig".into()),
        };
        let error = args.config().await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "kubeconfig `/nowhere/kubeconfig` cannot be read: check the path given with --kubeconfig or KUBECONFIG"
        );
    }

    #[tokio::test]
    async fn a_damaged_file_is_one_sentence_with_the_reason_and_without_its_secrets() {
        for (damage, reason) in [
            (
                GOOD.replace("contexts: [", "contexts: "),
                "it is not the YAML of a kubeconfig",
            ),
            (
                GOOD.replace("current-context: here", ""),
                "it has no current-context",
            ),
            (
                GOOD.replace("current-context: here", "current-context: there"),
                "its context `there` is missing",
            ),
            (
                GOOD.replace("cluster: here", "cluster: gone"),
                "the cluster of context `gone` is missing",
            ),
            (
                GOOD.replace("https://127.0.0.1:6443", "not a url"),
                "cluster url",
            ),
            (String::new(), "it has no current-context"),
        ] {
            let error = config_of(&damage).await.unwrap_err();
            assert!(matches!(error, ClientError::Invalid { .. }), "{error:?}");
            let sentence = error.to_string();
            assert!(sentence.contains(reason), "{sentence}");
            assert!(
                !sentence.contains('\n') && !sentence.contains("very-secret"),
                "{sentence}"
            );
        }
    }

    #[tokio::test]
    async fn several_kubeconfigs_are_merged() {
        let directory = tempfile::tempdir().unwrap();
        let (users, rest) = (
            directory.path().join("users"),
            directory.path().join("rest"),
        );
        let (rest_text, users_text) = GOOD.split_once("users:").unwrap();
        fs::write(&users, format!("users:{users_text}")).unwrap();
        fs::write(&rest, rest_text).unwrap();
        let paths = env::join_paths([&users, &rest]).unwrap();
        let config = KubeArgs {
            kubeconfig: Some(paths),
        }
        .config()
        .await
        .unwrap();
        assert_eq!(config.default_namespace, "mine");
        assert!(config.auth_info.token.is_some());
    }
}
