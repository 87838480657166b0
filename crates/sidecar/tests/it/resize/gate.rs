//! A proxy between a sidecar and the API server: it writes down what is written, and can hold a request up for ever.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use kube::Client;
use parking_lot::Mutex;
use stowage_stage::objects::connect;
use stowage_stage::proxy::pass_on;
use stowage_stage::{Proxy, eventually};

/// The proxy. It ends when dropped.
pub struct Gate {
    proxy: Proxy,
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    writes: Mutex<Vec<String>>,
    hold: Mutex<Option<(String, usize)>>,
    held: Mutex<bool>,
    lists: Mutex<Vec<String>>,
}

impl Gate {
    /// Passes everything on in the name of whoever `kubeconfig` is.
    pub async fn open(kubeconfig: &Path, directory: &Path) -> Self {
        let shared = Arc::new(Shared {
            client: connect(kubeconfig).await,
            writes: Mutex::default(),
            hold: Mutex::default(),
            held: Mutex::default(),
            lists: Mutex::default(),
        });
        let router = Router::new().fallback(pass).with_state(Arc::clone(&shared));
        Self {
            proxy: Proxy::serve(router, directory).await,
            shared,
        }
    }

    /// Leads to the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.proxy.kubeconfig
    }

    /// Writes of claims and volumes since the last look, such as `PATCH persistentvolumeclaims/status`.
    pub fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.writes.lock())
    }

    /// Kinds that were listed.
    pub fn lists(&self) -> Vec<String> {
        self.shared.lists.lock().clone()
    }

    /// The `nth` next write of this kind, and all after it, never get an answer, nor through.
    pub fn hold(&self, write: &str, nth: usize) {
        *self.shared.hold.lock() = Some((write.to_owned(), nth));
    }

    /// Waits until a write is held up.
    pub async fn holds(&self) {
        eventually("a write is held up", async || {
            self.shared.held.lock().then_some(())
        })
        .await;
    }
}

impl Shared {
    /// Notes a write; says whether it is to be held up.
    fn note(&self, line: String) -> bool {
        let mut hold = self.hold.lock();
        let stops = match hold.as_mut() {
            Some((write, nth)) if *write == line => {
                *nth = nth.saturating_sub(1);
                *nth == 0
            }
            _ => false,
        };
        if stops {
            *self.held.lock() = true;
        } else {
            self.writes.lock().push(line);
        }
        stops
    }
}

/// The kind in the path of a request, with its part, such as `persistentvolumeclaims/status`.
fn kind(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let skip = if parts.first() == Some(&"api") { 2 } else { 3 };
    let mut rest = &parts[skip.min(parts.len())..];
    if rest.first() == Some(&"namespaces") && rest.len() > 2 {
        rest = &rest[2..];
    }
    match rest {
        [kind, _, part] => format!("{kind}/{part}"),
        [kind, ..] => (*kind).to_owned(),
        [] => String::new(),
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let kind = kind(parts.uri.path());
    if parts.method == Method::GET {
        let query = parts.uri.query().unwrap_or_default();
        if !query.contains("watch") {
            shared.lists.lock().push(kind);
        }
    } else if kind.starts_with("persistentvolume")
        && shared.note(format!("{} {kind}", parts.method))
    {
        return std::future::pending().await;
    }
    let body = to_bytes(body, usize::MAX).await.unwrap();
    pass_on(&shared.client, &parts, &body).await
}
