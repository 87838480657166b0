//! The flags of the API server.

use kube::Config;
use stowage_service::KubeArgs;
use stowage_service::client::ClientError;

/// How the API server is reached.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ServerArgs {
    /// Where the credentials are.
    #[command(flatten)]
    pub kube: KubeArgs,

    /// URL of the API server, in place of that of the kubeconfig or the pod
    #[arg(long, help_heading = "Kubernetes", value_name = "URL", value_parser = url)]
    pub master: Option<Url>,
}

/// A URL, or none: Go's flags default to the empty text, and manifests spell that out.
#[derive(Clone, Debug)]
pub struct Url(Option<http::Uri>);

fn url(text: &str) -> Result<Url, String> {
    if text.is_empty() {
        return Ok(Url(None));
    }
    match text.parse::<http::Uri>() {
        Ok(url) if url.scheme().is_some() && url.host().is_some() => Ok(Url(Some(url))),
        _ => Err("write a URL such as `https://10.0.0.1:6443`".to_owned()),
    }
}

impl ServerArgs {
    /// Reads the configuration. Nothing is sent to the cluster yet.
    pub(crate) async fn config(&self) -> Result<Config, ClientError> {
        let found = self.kube.config().await;
        let Some(Url(Some(url))) = &self.master else {
            return found;
        };
        match found {
            Ok(mut config) => {
                config.cluster_url = url.clone();
                Ok(config)
            }
            // Go's clients then talk to the server without credentials.
            Err(ClientError::NoCluster) => Ok(Config::new(url.clone())),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me, namespace: mine}}]
clusters: [{name: here, cluster: {server: 'https://127.0.0.1:6443'}}]
users: [{name: me, user: {token: very-secret}}]
";

    async fn server(master: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, KUBECONFIG).unwrap();
        let args = ServerArgs {
            kube: KubeArgs {
                kubeconfig: Some(file.path().into()),
            },
            master: Some(url(master).unwrap()),
        };
        let config = args.config().await.unwrap();
        assert_eq!(config.default_namespace, "mine");
        config.cluster_url.to_string()
    }

    #[tokio::test]
    async fn the_url_takes_the_place_of_the_kubeconfigs_and_nothing_else_does() {
        assert_eq!(
            server("https://10.0.0.1:8443").await,
            "https://10.0.0.1:8443/"
        );
        assert_eq!(server("").await, "https://127.0.0.1:6443/");
        for wrong in ["10.0.0.1:6443", "/x", "https://"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
