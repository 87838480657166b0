//! A server of the test's own before the API server: it can write down what is sent, hold it up, or change it.

use std::path::{Path, PathBuf};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use kube::Client;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Serves until it is dropped.
pub struct Proxy {
    /// Who uses it is sent to the proxy.
    pub kubeconfig: PathBuf,
    serving: JoinHandle<()>,
}

impl Proxy {
    /// Serves `router`; the kubeconfig is written into `directory`.
    pub async fn serve(router: Router, directory: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": url}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "current-context": "proxy",
        });
        let kubeconfig = directory.join("proxy.kubeconfig");
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            kubeconfig,
            serving,
        }
    }
}

/// Sends a request on to the API server, as whoever `client` is.
pub async fn pass_on(client: &Client, parts: &Parts, body: &Bytes) -> Response {
    let mut onward = Request::builder()
        .method(parts.method.clone())
        .uri(parts.uri.path_and_query().unwrap().as_str());
    for name in ["content-type", "accept"] {
        if let Some(value) = parts.headers.get(name) {
            onward = onward.header(name, value);
        }
    }
    let body = kube::client::Body::from(body.to_vec());
    match client.send(onward.body(body).unwrap()).await {
        Ok(answer) => answer.map(Body::new),
        Err(error) => {
            let mut answer = Response::new(Body::from(error.to_string()));
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
            answer
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
