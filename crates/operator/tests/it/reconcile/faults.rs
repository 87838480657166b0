//! Every request of a sync fails once; the end must be the same as without failures.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Uri};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use stowage_operator::driver::Kind;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Layer, Service};

use crate::reconcile::rig::Rig;

/// Which requests fail. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    mode: Mode,
    /// Requests that have failed already.
    seen: BTreeSet<String>,
    sent: Vec<String>,
    /// Requests that the server refuses.
    refused: Option<Misaddressed>,
    /// A request that waits.
    held: Option<Door>,
}

/// Where a request waits before it reaches the server.
#[derive(Clone)]
pub(crate) struct Door {
    /// What its path ends with.
    end: String,
    reached: Arc<Notify>,
    opened: CancellationToken,
}

impl Door {
    /// Waits until a request stands there.
    pub(crate) async fn until_reached(&self) {
        let reached = tokio::time::timeout(Duration::from_secs(30), self.reached.notified());
        reached.await.expect("no such request is sent");
    }

    /// Lets it through.
    pub(crate) fn open(&self) {
        self.opened.cancel();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.opened.is_cancelled()
    }

    async fn pass(&self) {
        self.reached.notify_one();
        self.opened.cancelled().await;
    }
}

/// Requests that go to another address than their content says: the server refuses them, as a policy would.
#[derive(Clone)]
struct Misaddressed {
    method: &'static str,
    /// What their path ends with.
    end: String,
    /// What it ends with instead.
    instead: &'static str,
}

#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Mode {
    /// All is well.
    #[default]
    Off,
    /// A request does not reach the server.
    Before,
    /// A request reaches the server and its answer does not come back.
    After,
}

impl Faults {
    pub(crate) fn start(&self, mode: Mode) {
        *self.0.lock() = State {
            mode,
            ..State::default()
        };
    }

    /// From now on the server refuses such requests: their path ends with `end`.
    pub(crate) fn refuse(&self, method: &'static str, end: &str, instead: &'static str) {
        self.0.lock().refused = Some(Misaddressed {
            method,
            end: end.to_owned(),
            instead,
        });
    }

    /// Sends a request elsewhere, if it is to be refused.
    fn misaddress(&self, request: &mut Request<Body>) {
        let Some(refused) = self.0.lock().refused.clone() else {
            return;
        };
        let path = request.uri().path();
        if request.method() == refused.method
            && let Some(start) = path.strip_suffix(&refused.end)
        {
            let query = request.uri().query();
            let query = query.map_or_else(String::new, |it| format!("?{it}"));
            let mut parts = request.uri().clone().into_parts();
            let elsewhere = format!("{start}{}{query}", refused.instead);
            parts.path_and_query = Some(elsewhere.parse().unwrap());
            *request.uri_mut() = Uri::from_parts(parts).unwrap();
        }
    }

    /// Goes on in another mode: what has failed once does not fail again.
    pub(crate) fn set(&self, mode: Mode) {
        self.0.lock().mode = mode;
    }

    /// How many different requests have failed.
    fn count(&self) -> usize {
        self.0.lock().seen.len()
    }

    /// Those that have failed, as `METHOD path`.
    pub(crate) fn failed(&self) -> BTreeSet<String> {
        self.0.lock().seen.clone()
    }

    /// From now on the next request whose path ends like this waits until somebody opens the door.
    pub(crate) fn hold(&self, end: &str) -> Door {
        let door = Door {
            end: end.to_owned(),
            reached: Arc::default(),
            opened: CancellationToken::new(),
        };
        self.0.lock().held = Some(door.clone());
        door
    }

    /// The door that a request stands at.
    fn door_of(&self, request: &Request<Body>) -> Option<Door> {
        let held = &mut self.0.lock().held;
        held.take_if(|door| request.uri().path().ends_with(&door.end))
    }

    /// Writes since the start, as `METHOD path`.
    pub(crate) fn writes(&self) -> Vec<String> {
        let state = self.0.lock();
        let is_write = |it: &&String| !it.starts_with("GET") && !it.contains("dryRun");
        state.sent.iter().filter(is_write).cloned().collect()
    }

    /// Requests since the start whose path has this in it.
    pub(crate) fn sent(&self, about: &str) -> Vec<String> {
        let state = self.0.lock();
        let sent = state.sent.iter().filter(|it| it.contains(about));
        sent.cloned().collect()
    }

    /// What happens to this request.
    fn judge(&self, request: &Request<Body>) -> Mode {
        let title = format!("{} {}", request.method(), request.uri());
        let mut state = self.0.lock();
        state.sent.push(title.clone());
        // Watches are not part of a sync.
        if state.mode == Mode::Off || title.contains("watch=true") || !state.seen.insert(title) {
            return Mode::Off;
        }
        state.mode
    }
}

pub(crate) struct FaultLayer(pub(crate) Faults);

impl<S> Layer<S> for FaultLayer {
    type Service = FaultService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FaultService {
            inner,
            faults: self.0.clone(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct FaultService<S> {
    inner: S,
    faults: Faults,
}

impl<S> Service<Request<Body>> for FaultService<S>
where
    S: Service<Request<Body>, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        self.faults.misaddress(&mut request);
        let fate = self.faults.judge(&request);
        if fate == Mode::Before {
            return Box::pin(async { Err("injected: the request is lost".into()) });
        }
        let door = self.faults.door_of(&request);
        // It is sent when somebody waits for its answer, and not before.
        let answer = self.inner.call(request);
        Box::pin(async move {
            if let Some(door) = door {
                door.pass().await;
            }
            let answer = answer.await?;
            match fate {
                Mode::After => Err("injected: the answer is lost".into()),
                Mode::Off | Mode::Before => Ok(answer),
            }
        })
    }
}

/// What must be the same in the end: objects and status, without what differs between any two instances.
async fn outcome(rig: &Rig) -> BTreeMap<String, Value> {
    let instance = rig.instance().await;
    let uid = instance["metadata"]["uid"]
        .as_str()
        .unwrap_or("no uid")
        .to_owned();
    let mut objects = rig.owned().await;
    if !instance.is_null() {
        objects.insert("instance".to_owned(), instance);
    }
    let mut plain = BTreeMap::new();
    for (title, mut object) in objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        for key in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "selfLink",
            "generation",
        ] {
            metadata.remove(key);
        }
        if let Some(children) = object.pointer_mut("/status/children") {
            for child in children.as_array_mut().unwrap() {
                child["uid"] = Value::Null;
                // How often an object was written on the way does not matter.
                child["lastGeneration"] = Value::Null;
            }
        }
        for condition in object
            .pointer_mut("/status/conditions")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            condition["lastTransitionTime"] = Value::Null;
        }
        let text = object
            .to_string()
            .replace(&uid, "UID")
            .replace(&rig.namespace, "NS");
        let title = title.replace(&uid, "UID").replace(&rig.namespace, "NS");
        plain.insert(title, serde_json::from_str(&text).unwrap());
    }
    plain
}

/// What happens in a scenario, step by step: each step is followed by a sync.
async fn step(rig: &mut Rig, scenario: &str, step: usize) -> bool {
    match (scenario, step) {
        (_, 0) => {
            let mut instance = crate::reconcile::rig::example(&rig.namespace);
            instance["spec"]["controllerReplicas"] = json!(2);
            rig.create(instance).await;
        }
        ("edit", 1) => {
            let class = json!([{"metadata": {"name": format!("{}-c", rig.namespace)}}]);
            let spec = json!({"nodeUpdateStrategy": "OnDelete", "controllerReplicas": 1, "storageClassTemplates": class});
            rig.edit(json!({"spec": spec})).await;
        }
        ("drift", 1) => {
            rig.patch(
                Kind::Deployment,
                "hostpath-controller",
                json!({"spec": {"replicas": 7}}),
            )
            .await;
            let api = rig.api(Kind::DaemonSet);
            api.delete("hostpath-node", &kube::api::DeleteParams::default())
                .await
                .unwrap();
        }
        ("delete", 1) => {
            rig.instances()
                .delete("hostpath", &kube::api::DeleteParams::default())
                .await
                .unwrap();
        }
        ("invalid", 1) => {
            rig.edit(json!({"spec": {"driverSocket": "/csi.sock"}}))
                .await;
        }
        ("unmanaged", 1) => {
            rig.edit(json!({"spec": {"managementState": "Unmanaged"}}))
                .await;
        }
        _ => return false,
    }
    true
}

async fn play(scenario: &str, mode: Mode) -> (BTreeMap<String, Value>, usize) {
    let mut rig = Rig::new().await;
    let mut failures = 0;
    for number in 0.. {
        rig.faults.start(Mode::Off);
        if !step(&mut rig, scenario, number).await {
            break;
        }
        rig.faults.start(mode);
        rig.sync().await;
        failures += rig.faults.count();
    }
    rig.faults.start(Mode::Off);
    // What a disturbed sync left to its next trigger.
    rig.sync().await;
    (outcome(&rig).await, failures)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_survives_the_failure_of_each_of_its_requests() {
    for scenario in ["create", "edit", "drift", "delete", "invalid", "unmanaged"] {
        let (undisturbed, _) = play(scenario, Mode::Off).await;
        for mode in [Mode::Before, Mode::After] {
            let (disturbed, failures) = play(scenario, mode).await;
            assert!(failures > 20, "{scenario}: only {failures} requests failed");
            let titles = |of: &BTreeMap<String, Value>| of.keys().cloned().collect::<Vec<_>>();
            assert_eq!(titles(&undisturbed), titles(&disturbed), "{scenario}");
            for (title, object) in &undisturbed {
                assert_eq!(object, &disturbed[title], "{scenario}: {title}");
            }
        }
    }
}
