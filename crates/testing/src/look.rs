//! Looking at a cluster from a test, and waiting for what will be there: one client for each cluster, and a watch of what a test
//! looks at while it waits, so that it looks again when something has changed and not before.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::PartialObjectMeta;
use kube::discovery::Scope;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config, Discovery};
use parking_lot::{Condvar, Mutex};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Longest time anything in a test may take before it counts as broken: twice as long as the longest pause that a kubelet
/// makes before it tries again to mount.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// How long a look may take: a server that is gone without a word answers never.
const LOOK: Duration = Duration::from_secs(10);

/// How long it takes until a test looks again although nothing that it looked at has changed: not everything can be watched.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long it takes at least: a change seldom comes alone.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// Names that kubectl takes for kinds, and that servers do not tell with them.
const SHORT: [(&str, &str); 6] = [
    ("pvc", "persistentvolumeclaims"),
    ("pv", "persistentvolumes"),
    ("sc", "storageclasses"),
    ("crd", "customresourcedefinitions"),
    ("ns", "namespaces"),
    ("cm", "configmaps"),
];

/// A cluster as a test sees it.
pub struct Look {
    runtime: Runtime,
    client: Client,
    kinds: Mutex<BTreeMap<String, (ApiResource, bool)>>,
    changes: Arc<Changes>,
}

/// How often each collection has changed since it is watched.
#[derive(Default)]
struct Changes {
    counts: Mutex<BTreeMap<Collection, u64>>,
    one_more: Condvar,
}

/// Objects of a kind, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Collection {
    kind: String,
    namespace: Option<String>,
}

thread_local! {
    /// What this thread has looked at since it began to ask, and how often that had changed before.
    static SEEN: RefCell<Vec<(&'static Look, Collection, u64)>> = const { RefCell::new(Vec::new()) };
}

impl Look {
    /// At the cluster of this kubeconfig.
    pub fn at(kubeconfig: &Path) -> &'static Self {
        static ALL: Mutex<BTreeMap<PathBuf, &'static Look>> = Mutex::new(BTreeMap::new());
        let mut all = ALL.lock();
        let known = all.get(kubeconfig).copied();
        known.unwrap_or_else(|| {
            let look: &'static Self = Box::leak(Box::new(Self::new(kubeconfig)));
            all.insert(kubeconfig.to_owned(), look);
            look
        })
    }

    fn new(kubeconfig: &Path) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let client = wait_on(&runtime, async move {
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
            Client::try_from(config.unwrap()).unwrap()
        });
        Self {
            runtime,
            client,
            kinds: Mutex::default(),
            changes: Arc::default(),
        }
    }

    /// An object, if it can be read now. `kind` as kubectl takes it.
    pub fn get(&'static self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let api = self.api(kind, Some(namespace))?;
        let name = name.to_owned();
        let look = async move { timeout(LOOK, api.get_opt(&name)).await };
        let object = wait_on(&self.runtime, look).ok()?.ok()??;
        serde_json::to_value(object).ok()
    }

    /// Objects of a namespace, or of all, with these labels and fields, if they can be read now.
    pub fn list(
        &'static self,
        kind: &str,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Option<Vec<Value>> {
        let api = self.api(kind, namespace)?;
        let params = ListParams::default().labels(labels).fields(fields);
        let look = async move { timeout(LOOK, api.list(&params)).await };
        let list = wait_on(&self.runtime, look).ok()?.ok()?;
        list.items
            .into_iter()
            .map(|object| serde_json::to_value(object).ok())
            .collect()
    }

    fn api(&'static self, kind: &str, namespace: Option<&str>) -> Option<Api<DynamicObject>> {
        let (resource, is_namespaced) = self.kind(kind)?;
        let collection = Collection {
            kind: kind.to_owned(),
            namespace: namespace.filter(|_| is_namespaced).map(str::to_owned),
        };
        let api = match &collection.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let before = self.changes.counts.lock().get(&collection).copied();
        SEEN.with_borrow_mut(|seen| seen.push((self, collection, before.unwrap_or_default())));
        Some(api)
    }

    /// What a word means to this server; kinds come while tests run.
    fn kind(&self, word: &str) -> Option<(ApiResource, bool)> {
        let short = SHORT.iter().find(|(short, _)| *short == word);
        let word = short.map_or(word, |(_, long)| *long).to_lowercase();
        let mut kinds = self.kinds.lock();
        if !kinds.contains_key(&word) {
            let client = self.client.clone();
            let look = async move { timeout(LOOK, Discovery::new(client).run()).await };
            let discovery = wait_on(&self.runtime, look);
            let discovery = discovery.ok()?.ok()?;
            let mut groups: Vec<_> = discovery.groups().collect();
            groups.sort_by_key(|group| rank(group.name()));
            for group in groups {
                for (resource, capabilities) in group.recommended_resources() {
                    let is_namespaced = capabilities.scope == Scope::Namespaced;
                    for name in [resource.plural.clone(), resource.kind.to_lowercase()] {
                        for name in [format!("{name}.{}", resource.group), name] {
                            let found = (resource.clone(), is_namespaced);
                            kinds.entry(name).or_insert(found);
                        }
                    }
                }
            }
        }
        kinds.get(&word).cloned()
    }

    /// Counts changes of a collection from now on. Called twice: it is watched already.
    fn watch(&'static self, collection: &Collection) {
        let mut counts = self.changes.counts.lock();
        if counts.contains_key(collection) {
            return;
        }
        let Some((resource, _)) = self.kind(&collection.kind) else {
            return;
        };
        counts.insert(collection.clone(), 0);
        drop(counts);
        let client = self.client.clone();
        // Their names are enough: whoever waits looks again.
        let api: Api<PartialObjectMeta<DynamicObject>> = match &collection.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let (changes, collection) = (Arc::clone(&self.changes), collection.clone());
        self.runtime.spawn(async move {
            let mut events = watcher(api, watcher::Config::default())
                .default_backoff()
                .boxed();
            while let Some(event) = events.next().await {
                if event.is_ok() {
                    *changes.counts.lock().entry(collection.clone()).or_default() += 1;
                    changes.one_more.notify_all();
                }
            }
        });
    }
}

/// Kubernetes' own kinds before others' of the same name; the core group, whose name is empty, first of all.
fn rank(group: &str) -> (bool, bool, &str) {
    let is_own = !group.contains('.') || group.ends_with(".k8s.io") && group != "metrics.k8s.io";
    (!group.is_empty(), !is_own, group)
}

/// The outcome of work that another thread does: a test that asks may itself be a task of a runtime.
fn wait_on<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let (tell, told) = mpsc::channel();
    runtime.spawn(async move { tell.send(work.await) });
    told.recv().unwrap()
}

/// Asks until the answer is there, and panics with `what` if it never comes.
pub fn eventually<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    eventually_or(what, ask, || "")
}

/// The same, and `instead` tells what is there in place of it.
pub fn eventually_or<T, S: Display>(
    what: &str,
    mut ask: impl FnMut() -> Option<T>,
    instead: impl FnOnce() -> S,
) -> T {
    let started = Instant::now();
    let mut pause = Duration::from_millis(200);
    while started.elapsed() < PATIENCE {
        SEEN.take();
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::sleep(SHORTEST_PAUSE);
        wait_for_a_change(pause);
        pause = (pause * 5 / 4).min(LONGEST_PAUSE);
    }
    panic!("{what}: not within {PATIENCE:?}\n{}", instead());
}

/// Until something has changed of what was looked at, and no longer than this.
fn wait_for_a_change(at_most: Duration) {
    let seen = SEEN.take();
    let Some((look, ..)) = seen.first() else {
        return std::thread::sleep(at_most);
    };
    for (look, collection, _) in &seen {
        look.watch(collection);
    }
    let deadline = Instant::now() + at_most;
    // Of one cluster: whoever looks at two is woken by the first.
    let mut counts = look.changes.counts.lock();
    let has_changed = |counts: &BTreeMap<Collection, u64>| {
        let mut own = seen
            .iter()
            .filter(|(other, ..)| std::ptr::eq(*other, *look));
        own.any(|(_, collection, before)| counts.get(collection).is_some_and(|now| now != before))
    };
    while !has_changed(&counts) {
        if look
            .changes
            .one_more
            .wait_until(&mut counts, deadline)
            .timed_out()
        {
            return;
        }
    }
}
