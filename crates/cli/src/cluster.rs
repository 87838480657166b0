//! How a command reaches the cluster: which credentials, which address.

pub mod lists;
pub mod trouble;

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fmt};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::args::Access;

/// A server that does not answer at all is reported after this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that stops in the middle of an answer is reported after this time.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A cluster to talk to, and how we came by it.
pub struct Cluster {
    /// Sends requests.
    pub client: Client,
    /// Address of the API server, for messages.
    pub url: String,
    /// Where address and credentials came from, for messages.
    pub origin: Origin,
}

/// Where address and credentials come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `--kubeconfig`
    Flag(PathBuf),
    /// `$KUBECONFIG`, a list of files
    Environment,
    /// `~/.kube/config`
    Home(PathBuf),
    /// The service account of the pod we run in
    Pod,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(path) | Self::Home(path) => write!(f, "the kubeconfig `{}`", path.display()),
            Self::Environment => f.write_str("the kubeconfig in $KUBECONFIG"),
            Self::Pod => f.write_str("the pod's service account"),
        }
    }
}

/// What the environment offers; see [`choose`].
#[derive(Debug, Default)]
struct Surroundings {
    /// `$KUBECONFIG` names at least one file.
    variable: bool,
    /// `~/.kube/config`, if there is such a file.
    home: Option<PathBuf>,
    /// Kubernetes has set the variables with the address of its API server, as it does in every pod.
    pod: bool,
}

impl Surroundings {
    fn look() -> Self {
        let variable = env::var_os("KUBECONFIG")
            .is_some_and(|list| env::split_paths(&list).any(|path| !path.as_os_str().is_empty()));
        let home = env::home_dir()
            .map(|home| home.join(".kube/config"))
            .filter(|path| path.exists());
        let pod = env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        Self {
            variable,
            home,
            pod,
        }
    }
}

/// The order kubectl has: flag, variable, home, pod.
fn choose(access: &Access, surroundings: Surroundings) -> anyhow::Result<Origin> {
    let origin = if let Some(path) = &access.kubeconfig {
        Origin::Flag(path.clone())
    } else if surroundings.variable {
        Origin::Environment
    } else if let Some(path) = surroundings.home {
        Origin::Home(path)
    } else if surroundings.pod {
        Origin::Pod
    } else {
        anyhow::bail!("no cluster is configured: give --kubeconfig FILE or set KUBECONFIG");
    };
    if let (Origin::Pod, Some(context)) = (&origin, &access.context) {
        anyhow::bail!(
            "--context `{context}` needs a kubeconfig, but only {origin} is there: give --kubeconfig FILE"
        );
    }
    Ok(origin)
}

/// Finds credentials and prepares a client. Nothing is sent yet.
pub async fn connect(access: &Access) -> anyhow::Result<Cluster> {
    let origin = choose(access, Surroundings::look())?;
    let options = KubeConfigOptions {
        context: access.context.clone(),
        ..KubeConfigOptions::default()
    };
    let kubeconfig = match &origin {
        Origin::Flag(path) | Origin::Home(path) => Some(Kubeconfig::read_from(path)),
        Origin::Environment => Some(Kubeconfig::from_env().map(Option::unwrap_or_default)),
        Origin::Pod => None,
    };
    let mut config = match kubeconfig {
        Some(kubeconfig) => {
            let kubeconfig = kubeconfig.map_err(|error| trouble::kubeconfig(&origin, &error))?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(|error| trouble::kubeconfig(&origin, &error))?
        }
        None => Config::incluster().map_err(|error| trouble::pod(&error))?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    // A person is waiting: kube's own retries go on for minutes.
    config.default_retry = false;

    let url = config.cluster_url.to_string();
    let client = Client::try_from(config).map_err(|error| trouble::client(&origin, &error))?;
    Ok(Cluster {
        client,
        url,
        origin,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> Surroundings {
        Surroundings {
            variable: true,
            home: Some("/home/me/.kube/config".into()),
            pod: true,
        }
    }

    fn chosen(access: &Access, surroundings: Surroundings) -> String {
        match choose(access, surroundings) {
            Ok(origin) => origin.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_most_explicit_source_wins() {
        let flag = Access {
            kubeconfig: Some("k.conf".into()),
            context: None,
        };
        let none = Access::default();
        let mut around = everything();
        assert_eq!(chosen(&flag, everything()), "the kubeconfig `k.conf`");
        assert_eq!(chosen(&none, everything()), "the kubeconfig in $KUBECONFIG");
        around.variable = false;
        assert_eq!(
            chosen(&none, around),
            "the kubeconfig `/home/me/.kube/config`"
        );
        let pod = Surroundings {
            pod: true,
            ..Surroundings::default()
        };
        assert_eq!(chosen(&none, pod), "the pod's service account");
    }

    #[test]
    fn nothing_to_go_by_is_an_error_with_a_remedy() {
        assert_eq!(
            chosen(&Access::default(), Surroundings::default()),
            "no cluster is configured: give --kubeconfig FILE or set KUBECONFIG"
        );
    }

    #[test]
    fn a_context_without_a_kubeconfig_is_refused() {
        let access = Access {
            kubeconfig: None,
            context: Some("prod".to_owned()),
        };
        let pod = Surroundings {
            pod: true,
            ..Surroundings::default()
        };
        assert_eq!(
            chosen(&access, pod),
            "--context `prod` needs a kubeconfig, but only the pod's service account is there: give --kubeconfig FILE"
        );
    }
}
