//! Between a process and the API server: lets writes through until one has changed something, and then none. Whoever waits for an
//! answer is killed meanwhile.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State as Passed};
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

pub struct Gate {
    /// How a process finds it.
    pub kubeconfig: PathBuf,
    state: Arc<Mutex<State>>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Nothing has changed yet.
    Open,
    /// Something has.
    Changed,
    /// Something has, and more was to.
    Shut,
}

struct Passage {
    client: Client,
    state: Arc<Mutex<State>>,
}

impl Gate {
    /// A gate to the API server of `kubeconfig`; the file for others is written into `directory`.
    pub async fn open(kubeconfig: &Path, directory: &Path) -> Self {
        let admin = Kubeconfig::read_from(kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(admin, &options).await;
        let state = Arc::new(Mutex::new(State::Open));
        let passage = Passage {
            client: Client::try_from(config.unwrap()).unwrap(),
            state: Arc::clone(&state),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(pass).with_state(Arc::new(passage));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let file = directory.join("gate.kubeconfig");
        let content = serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "gate",
            "clusters": [{"name": "gate", "cluster": {"server": server}}],
            "contexts": [{"name": "gate", "context": {"cluster": "gate", "user": ""}}]});
        std::fs::write(&file, content.to_string()).unwrap();
        Self {
            kubeconfig: file,
            state,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// The next process may write once.
    pub async fn reset(&self) {
        *self.state.lock().await = State::Open;
    }

    /// Whether the process has written, and would write again.
    pub async fn is_shut(&self) -> bool {
        *self.state.lock().await == State::Shut
    }
}

async fn pass(Passed(passage): Passed<Arc<Passage>>, request: Request) -> Response {
    // What is only told is nothing that was done.
    let is_event = request.uri().path().ends_with("/events");
    if *request.method() == Method::GET || is_event {
        return passage.send(request).await;
    }
    let mut state = passage.state.lock().await;
    if *state != State::Open {
        *state = State::Shut;
        drop(state);
        return pending().await;
    }
    let answer = passage.send(request).await;
    if answer.status().is_success() {
        *state = State::Changed;
    }
    answer
}

impl Passage {
    async fn send(&self, request: Request) -> Response {
        let (mut parts, body) = request.into_parts();
        parts.headers.remove(header::HOST);
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let request = Request::from_parts(parts, kube::client::Body::from(body));
        match self.client.send(request).await {
            Ok(answer) => answer.map(Body::new),
            Err(error) => {
                let mut answer = Response::new(Body::from(error.to_string()));
                *answer.status_mut() = StatusCode::BAD_GATEWAY;
                answer
            }
        }
    }
}
