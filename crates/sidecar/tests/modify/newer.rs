//! A server that seems to be newer than it is.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use stowage_memory_driver::Profile;
use stowage_sidecar::controller::run;
use stowage_stage::proxy::pass_on;
use stowage_stage::{Proxy, Rig, Running, eventually};

use crate::overlay::Overlay;

/// A bound claim `data` of 1 GiB, and a sidecar that believes to work for Kubernetes 1.34.
pub struct Newer {
    pub rig: Rig,
    pub sidecar: Option<Running>,
    pub volume: String,
    pub overlay: Arc<Overlay>,
    proxy: Proxy,
}

impl Newer {
    pub async fn new(change: impl FnOnce(&mut Profile), flags: &[&str]) -> Self {
        let rig = Rig::plain_with(change).await;
        rig.class(json!({"allowVolumeExpansion": true})).await;
        let overlay = Arc::<Overlay>::default();
        let state = (rig.client.clone(), Arc::clone(&overlay));
        let router = Router::new().fallback(pass).with_state(state);
        let proxy = Proxy::serve(router, rig.directory.path()).await;
        let sidecar = rig.sidecar_as(run, &proxy.kubeconfig, flags);
        rig.claim("data", json!({})).await;
        let volume = rig.bound("data").await.name_any();
        Self {
            rig,
            sidecar: Some(sidecar),
            volume,
            overlay,
            proxy,
        }
    }

    /// Ends the sidecar like a `kill -9`, and starts another one.
    pub async fn restart(&mut self) {
        self.sidecar.take().unwrap().kill().await;
        self.sidecar = Some(self.rig.sidecar_as(run, &self.proxy.kubeconfig, &[]));
    }

    pub fn key(&self) -> String {
        format!("{}/data", self.rig.namespace)
    }

    /// Changes fields of the claim that the server does not have, and makes it send the claim to those who watch.
    pub async fn set(&self, fields: Value) {
        self.overlay.set(&self.key(), &fields);
        let mark = self.overlay.get(&self.key()).to_string().len().to_string();
        self.rig.annotate("data", "example.com/mark", None).await;
        self.rig
            .annotate("data", "example.com/mark", Some(&mark))
            .await;
    }

    /// Asks for another class.
    pub async fn want(&self, class: &str) {
        self.set(json!({"spec": {"volumeAttributesClassName": class}}))
            .await;
    }

    /// Asks for so much.
    pub async fn request(&self, size: &str) {
        let patch = json!({"spec": {"resources": {"requests": {"storage": size}}}});
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let claims = self.rig.claims();
        claims.patch("data", &params, &patch).await.unwrap();
    }

    /// Waits until the fields of the claim's status that the server does not have are these.
    pub async fn has(&self, status: Value) {
        eventually(&format!("the claim has {status}"), async || {
            let now = self.overlay.get(&self.key())["status"].clone();
            (now == status).then_some(())
        })
        .await;
    }

    /// The types of the claim's conditions, in alphabetical order.
    pub async fn conditions(&self) -> Vec<String> {
        let claim: PersistentVolumeClaim = self.rig.get_claim("data").await;
        let all = claim.status.unwrap_or_default().conditions;
        let mut types: Vec<_> = all.into_iter().flatten().map(|one| one.type_).collect();
        types.sort();
        types
    }

    pub async fn says(&self, expected: &[&str]) {
        eventually(&format!("the claim says {expected:?}"), async || {
            (self.conditions().await == expected).then_some(())
        })
        .await;
    }
}

async fn pass(
    State((client, overlay)): State<(Client, Arc<Overlay>)>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let classes = "/apis/storage.k8s.io/v1/volumeattributesclasses/";
    if let Some(name) = path.strip_prefix(classes) {
        return match overlay.class(name) {
            Some(class) => say(StatusCode::OK, &class),
            None => say(StatusCode::NOT_FOUND, &missing(name)),
        };
    }
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let answer = pass_on(&client, &parts, &body).await;
    if !answer.status().is_success() {
        return answer;
    }
    if path == "/version" || path == "/apis/storage.k8s.io/v1" {
        return change(answer, |value| make_newer(&path, value)).await;
    }
    if !path.contains("/persistentvolumeclaims") {
        return answer;
    }
    if parts.method == Method::PATCH && path.ends_with("/status") {
        let written: Value = serde_json::from_slice(&body).unwrap();
        let words: Vec<_> = path.split('/').collect();
        overlay.take(&format!("{}/{}", words[4], words[6]), &written);
    }
    let query = parts.uri.query().unwrap_or_default();
    if query.contains("watch=true") {
        return lines(answer, overlay);
    }
    change(answer, |value| overlay.add(value)).await
}

fn make_newer(path: &str, value: &mut Value) {
    if path == "/version" {
        value["minor"] = json!("34");
    } else if let Some(kinds) = value["resources"].as_array_mut() {
        kinds.push(json!({
            "name": "volumeattributesclasses",
            "singularName": "",
            "namespaced": false,
            "kind": "VolumeAttributesClass",
            "verbs": ["get", "list", "watch"],
        }));
    }
}

fn missing(name: &str) -> Value {
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("volumeattributesclasses \"{name}\" not found"),
        "reason": "NotFound",
        "code": 404,
    })
}

fn say(status: StatusCode, value: &Value) -> Response {
    let answer = Response::builder().status(status);
    let answer = answer.header("content-type", "application/json");
    answer.body(Body::from(value.to_string())).unwrap()
}

/// Changes an answer as a whole.
async fn change(answer: Response, edit: impl FnOnce(&mut Value)) -> Response {
    let (mut parts, body) = answer.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let mut value = serde_json::from_slice(&body).unwrap();
    edit(&mut value);
    for length in ["content-length", "transfer-encoding"] {
        parts.headers.remove(length);
    }
    Response::from_parts(parts, Body::from(value.to_string()))
}

/// Changes the answer to a watch line by line.
fn lines(answer: Response, overlay: Arc<Overlay>) -> Response {
    let (parts, body) = answer.into_parts();
    let mut rest = Vec::new();
    let changed = body.into_data_stream().map(move |piece| {
        rest.extend(piece?);
        let mut whole = Vec::new();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let mut value: Value = serde_json::from_slice(&line).unwrap();
            overlay.add(&mut value);
            whole.extend(value.to_string().into_bytes());
            whole.push(b'\n');
        }
        Ok::<_, axum::Error>(whole)
    });
    Response::from_parts(parts, Body::from_stream(changed))
}
