//! A server that is new enough, or seems to be.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use stowage_memory_driver::Profile;
use stowage_sidecar::controller::run;
use stowage_stage::proxy::pass_on;
use stowage_stage::{Proxy, Rig, Running, create, eventually};

use crate::modify::overlay::{NEW_STATUS, Overlay};

/// A bound claim `data` of 1 GiB, and a sidecar that works for Kubernetes 1.34 or newer, or believes so.
pub struct Newer {
    pub rig: Rig,
    pub sidecar: Option<Running>,
    pub volume: String,
    /// Two classes: the driver in memory knows one mutable parameter, with these two values.
    pub gold: String,
    pub iron: String,
    /// `None`: the server has everything itself.
    posing: Option<Posing>,
}

/// What stands before a server that is older.
struct Posing {
    overlay: Arc<Overlay>,
    proxy: Proxy,
}

impl Newer {
    pub async fn new(change: impl FnOnce(&mut Profile), flags: &[&str]) -> Self {
        let rig = Rig::plain_with(change).await;
        rig.class(json!({"allowVolumeExpansion": true})).await;
        let posing = if has_classes(&rig.client).await {
            None
        } else {
            Some(Posing::before(&rig).await)
        };
        let mut newer = Self {
            gold: format!("gold-{}", rig.namespace),
            iron: format!("iron-{}", rig.namespace),
            volume: String::new(),
            sidecar: None,
            posing,
            rig,
        };
        newer.start(flags);
        newer.rig.claim("data", json!({})).await;
        newer.volume = newer.rig.bound("data").await.name_any();
        newer
    }

    fn start(&mut self, flags: &[&str]) {
        let kubeconfig = match &self.posing {
            Some(posing) => &posing.proxy.kubeconfig,
            None => self.rig.server.kubeconfig(),
        };
        self.sidecar = Some(self.rig.sidecar_as(run, kubeconfig, flags));
    }

    /// Ends the sidecar like a `kill -9`, and starts another one.
    pub async fn restart(&mut self) {
        self.sidecar.take().unwrap().kill().await;
        self.start(&[]);
    }

    /// Makes a class. Called for a class that is there: it fails.
    pub async fn make_class(&self, name: &str, driver: &str, tier: &str) {
        let class = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttributesClass",
            "metadata": {"name": name},
            "driverName": driver,
            "parameters": {"tier": tier},
        });
        match &self.posing {
            Some(posing) => posing.overlay.add_class(class),
            None => {
                let classes = Api::<VolumeAttributesClass>::all(self.rig.client.clone());
                create(&classes, class).await;
            }
        }
    }

    /// Makes the two classes of this driver.
    pub async fn make_classes(&self) {
        for (name, tier) in [(&self.gold, "gold"), (&self.iron, "iron")] {
            self.make_class(name, &self.rig.name, tier).await;
        }
    }

    /// Another claim, which wants a class from the start.
    pub async fn claim_of_class(&self, name: &str, class: &str) {
        let fields = json!({"spec": {"volumeAttributesClassName": class}});
        if let Some(posing) = &self.posing {
            let key = format!("{}/{name}", self.rig.namespace);
            posing.overlay.set(&key, &fields);
        }
        self.rig.claim(name, fields).await;
    }

    /// Changes fields of the claim that older servers do not have, or do not let users change.
    pub async fn set(&self, fields: Value) {
        let (params, claims) = (PatchParams::default(), self.rig.claims());
        let Some(posing) = &self.posing else {
            let patch = Patch::Merge(&fields);
            claims.patch("data", &params, &patch).await.unwrap();
            return;
        };
        let key = self.key();
        posing.overlay.set(&key, &fields);
        // The server sends it to those who watch only if something changes that it knows of.
        let mark = posing.overlay.get(&key).to_string().len().to_string();
        self.rig.annotate("data", "example.com/mark", None).await;
        self.rig
            .annotate("data", "example.com/mark", Some(&mark))
            .await;
    }

    /// What a kubelet writes when the filesystem has grown.
    pub async fn finish_on_node(&self, size: &str) {
        if let Some(posing) = &self.posing {
            let done = json!({"status": {"allocatedResourceStatuses": {"storage": null}}});
            posing.overlay.set(&self.key(), &done);
        }
        let done = json!({"status": {
            "capacity": {"storage": size},
            "conditions": null,
            "allocatedResourceStatuses": null,
        }});
        let (params, done) = (PatchParams::default(), Patch::Merge(&done));
        let claims = self.rig.claims();
        claims.patch_status("data", &params, &done).await.unwrap();
    }

    fn key(&self) -> String {
        format!("{}/data", self.rig.namespace)
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

    /// Waits until the fields of the claim's status that older servers do not have are these.
    pub async fn has(&self, status: Value) {
        eventually(&format!("the claim has {status}"), async || {
            (self.new_status().await == status).then_some(())
        })
        .await;
    }

    /// Without what is empty: servers leave that out.
    async fn new_status(&self) -> Value {
        let status = match &self.posing {
            Some(posing) => posing.overlay.get(&self.key())["status"].clone(),
            None => json!(self.rig.get_claim("data").await.status),
        };
        let fields = NEW_STATUS.iter().filter_map(|field| {
            let value = status.get(field)?;
            let empty = value.as_object().is_some_and(serde_json::Map::is_empty);
            (!empty && !value.is_null()).then(|| ((*field).to_owned(), value.clone()))
        });
        Value::Object(fields.collect())
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

impl Posing {
    async fn before(rig: &Rig) -> Self {
        let overlay = Arc::<Overlay>::default();
        let state = (rig.client.clone(), Arc::clone(&overlay));
        let router = Router::new().fallback(pass).with_state(state);
        let proxy = Proxy::serve(router, rig.directory.path()).await;
        Self { overlay, proxy }
    }
}

async fn has_classes(client: &Client) -> bool {
    let kinds = client.list_api_group_resources("storage.k8s.io/v1").await;
    let mut kinds = kinds.unwrap().resources.into_iter();
    kinds.any(|kind| kind.name == "volumeattributesclasses")
}

async fn pass(
    State((client, overlay)): State<(Client, Arc<Overlay>)>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default();
    if let Some(name) = path.strip_prefix("/apis/storage.k8s.io/v1/volumeattributesclasses") {
        return classes(overlay, name.trim_start_matches('/'), query);
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
    if query.contains("watch=true") {
        return lines(answer, overlay);
    }
    change(answer, |value| overlay.add(value)).await
}

/// Get, list and watch.
fn classes(overlay: Arc<Overlay>, name: &str, query: &str) -> Response {
    if let Some((_, known)) = query.split_once("resourceVersion=")
        && query.contains("watch=true")
    {
        let digits = known.split('&').next().unwrap();
        let changes = overlay.watch_classes(digits.parse().unwrap());
        return Response::new(Body::from_stream(changes));
    }
    match overlay.class(name) {
        _ if name.is_empty() => say(StatusCode::OK, &overlay.list_classes()),
        Some(class) => say(StatusCode::OK, &class),
        None => say(StatusCode::NOT_FOUND, &missing(name)),
    }
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
