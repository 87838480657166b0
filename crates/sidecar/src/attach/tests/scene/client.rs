//! Clients of the API server whose requests are seen.

use std::path::PathBuf;
use std::sync::OnceLock;

use devcluster::testing::Rule;
use kube::Client;
use kube::client::{Body, ClientBuilder};
use stowage_service::KubeArgs;
use stowage_service::client::install_crypto_provider;
use stowage_testing::{once_at, shared};
use tower::util::MapRequestLayer;

/// The kubeconfig of a user with the ClusterRole of upstream's attacher, and no other rights.
pub(super) fn attacher() -> PathBuf {
    static USER: OnceLock<PathBuf> = OnceLock::new();
    let storage = &["storage.k8s.io"];
    let rules = [
        Rule {
            groups: &[""],
            resources: &["persistentvolumes"],
            verbs: &["get", "list", "watch", "patch"],
        },
        Rule {
            groups: storage,
            resources: &["csinodes"],
            verbs: &["get", "list", "watch"],
        },
        Rule {
            groups: storage,
            resources: &["volumeattachments"],
            verbs: &["get", "list", "watch", "patch"],
        },
        Rule {
            groups: storage,
            resources: &["volumeattachments/status"],
            verbs: &["patch"],
        },
        Rule {
            groups: &[""],
            resources: &["secrets"],
            verbs: &["get", "list"],
        },
    ];
    USER.get_or_init(|| {
        let server = shared();
        once_at(server, "attacher", || {
            drop(server.user("attacher", &rules).unwrap());
        });
        server.kubeconfig_of("attacher").unwrap()
    })
    .clone()
}

/// `volumeattachments/status`, for example.
pub(super) fn kind(request: &http::Request<Body>) -> String {
    let mut parts = request
        .uri()
        .path()
        .split('/')
        .skip_while(|part| *part != "v1");
    let kind = parts.nth(1).unwrap_or_default();
    match parts.nth(1) {
        Some(part) => format!("{kind}/{part}"),
        None => kind.to_owned(),
    }
}

pub(super) async fn client(
    kubeconfig: PathBuf,
    see: impl Fn(&http::Request<Body>) + Clone + Send + Sync + 'static,
) -> Client {
    install_crypto_provider();
    let args = KubeArgs {
        kubeconfig: Some(kubeconfig.into()),
    };
    let config = args.config().await.unwrap();
    let layer = MapRequestLayer::new(move |request| {
        see(&request);
        request
    });
    let builder = ClientBuilder::try_from(config).unwrap();
    builder.with_layer(&layer).build()
}
