//! One watch, one store, any number of listeners.

mod pauses;
#[cfg(test)]
mod tests;
mod trouble;

use std::collections::HashSet;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::TryStreamExt as _;
use kube::api::ApiResource;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use stowage_service::health::Check;
use stowage_service::{Health, Tasks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::pauses::Pauses;
use self::trouble::report;
use crate::reading::Reading;
use crate::served::{self, Served};
use crate::store::{Cached, Change, Store};

/// In seconds: how long the server keeps a watch. It ends with a bookmark, and is taken up again where it ended. One that
/// does not end in time is dead (five seconds later), and what changed meanwhile is learned then.
const WATCH_FOR: u32 = 25;

/// Called with every change, in order, on the task of the watch: it must only note down what to do.
type Listener<T> = Box<dyn Fn(&Change<T>) + Send + Sync>;

/// A kind that is watched once, however many roles read it.
pub struct Watched<T> {
    store: Store<T>,
    /// Keys of objects that exist and cannot be read. Of some the store knows what they said before.
    unreadable: RwLock<HashSet<Box<str>>>,
    /// It grows whenever changes may have been missed.
    gaps: AtomicU64,
    listeners: RwLock<Vec<Listener<T>>>,
    synced: watch::Sender<bool>,
}

impl<T> Default for Watched<T> {
    fn default() -> Self {
        Self {
            store: Store::default(),
            unreadable: RwLock::default(),
            gaps: AtomicU64::default(),
            listeners: RwLock::default(),
            synced: watch::Sender::new(false),
        }
    }
}

impl<T: Cached> Watched<T> {
    /// What is known.
    pub fn store(&self) -> &Store<T> {
        &self.store
    }

    /// Whether an object exists that cannot be read.
    pub fn is_unreadable(&self, key: &str) -> bool {
        self.unreadable.read().contains(key)
    }

    /// The same number as before: every change since then has been heard of.
    pub fn gaps(&self) -> u64 {
        self.gaps.load(Ordering::SeqCst)
    }

    /// Returns when everything that existed at the start is in the store.
    pub async fn synced(&self) {
        // The sender lives as long as we do.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Calls `listener` with everything that is there, and from then on with every change. A role may start late, when
    /// its lease becomes free: it misses nothing, but may get an object twice.
    pub fn listen(&self, listener: impl Fn(&Change<T>) + Send + Sync + 'static) {
        let mut listeners = self.listeners.write();
        for new in self.store.all() {
            listener(&Change::Set { old: None, new });
        }
        listeners.push(Box::new(listener));
    }

    /// Follows the kind until `stop`. Lost connections are made good by listing again.
    pub async fn follow<W, R>(
        self: Arc<Self>,
        client: Client,
        read: impl Fn(W) -> R + Send,
        check: Check,
        stop: CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
        R: Into<Reading<T>>,
    {
        let all = Selected::<W>::default();
        self.follow_selected(client, all, read, check, stop).await;
    }

    async fn follow_selected<W, R>(
        self: Arc<Self>,
        client: Client,
        selected: Selected<W>,
        read: impl Fn(W) -> R + Send,
        check: Check,
        stop: CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
        R: Into<Reading<T>>,
    {
        let mut config = watcher::Config::default().timeout(WATCH_FOR);
        config.label_selector = selected.labels.map(str::to_owned);
        let kind = selected.kind();
        let changes = watcher(Api::<Served<W>>::all_with(client, &kind), config);
        let changes = changes.backoff(Pauses::default());
        let mut changes = pin!(changes);
        let mut listed = HashSet::new();
        let mut reported = String::new();
        check.not_ready("waiting for the API server's list");
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                event = changes.try_next() => event,
            };
            match event {
                Ok(Some(event)) => {
                    let recovered = !std::mem::take(&mut reported).is_empty();
                    let listed_all = matches!(event, watcher::Event::InitDone);
                    self.take(event, &read, &mut listed);
                    if listed_all || (recovered && *self.synced.borrow()) {
                        check.ready();
                    }
                }
                Ok(None) => return,
                Err(error) => report(&kind.plural, &error, &check, &mut reported),
            }
        }
    }

    fn take<W: Resource<DynamicType = ()>, R: Into<Reading<T>>>(
        &self,
        event: watcher::Event<Served<W>>,
        read: &impl Fn(W) -> R,
        listed: &mut HashSet<Box<str>>,
    ) {
        match event {
            watcher::Event::Init => {
                self.gaps.fetch_add(1, Ordering::SeqCst);
                listed.clear();
            }
            watcher::Event::InitApply(object) => listed.extend(self.apply(object, read).ok()),
            watcher::Event::InitDone => {
                self.gaps.fetch_add(1, Ordering::SeqCst);
                self.unreadable.write().retain(|key| listed.contains(key));
                for key in self.store.missing_from(listed) {
                    self.forget(&key);
                }
                *listed = HashSet::new();
                self.synced.send_replace(true);
            }
            watcher::Event::Apply(object) => {
                // It was of interest and is no longer.
                if let Err(Some(key)) = self.apply(object, read) {
                    self.forget(&key);
                }
            }
            watcher::Event::Delete(object) => {
                let Some(key) = T::key_of(object.meta()).map(Box::<str>::from) else {
                    return;
                };
                // Listeners get it as it was at the end.
                let last: Reading<T> = read(object.0).into();
                if let Reading::Of(last) = last
                    && self.store.get(&key).is_some()
                {
                    self.store.set(last);
                }
                self.forget(&key);
            }
        }
    }

    /// Keeps an object that exists, and returns its key. Otherwise the key of one that is of no interest.
    fn apply<W: Resource<DynamicType = ()>, R: Into<Reading<T>>>(
        &self,
        object: Served<W>,
        read: &impl Fn(W) -> R,
    ) -> Result<Box<str>, Option<Box<str>>> {
        let key = T::key_of(object.meta()).map(Box::<str>::from);
        let name = object.meta().name.clone().unwrap_or_default();
        let reading: Reading<T> = read(object.0).into();
        match reading {
            Reading::Of(object) => {
                let key: Box<str> = object.key().into();
                self.unreadable.write().remove(&key);
                self.notify(&self.store.set(object));
                Ok(key)
            }
            Reading::Other => Err(key),
            Reading::Unreadable(reason) => {
                let kind = W::kind(&());
                tracing::warn!(%kind, name, reason, "An object cannot be read.");
                let key = key.ok_or(None)?;
                self.unreadable.write().insert(key.clone());
                Ok(key)
            }
        }
    }

    fn forget(&self, key: &str) {
        self.unreadable.write().remove(key);
        if let Some(change) = self.store.remove(key) {
            self.notify(&change);
        }
    }

    fn notify(&self, change: &Change<T>) {
        let listeners = self.listeners.read();
        for listener in listeners.iter() {
            listener(change);
        }
    }
}

/// Which objects of a kind, and in which version of its group.
struct Selected<W> {
    group_version: Option<&'static str>,
    labels: Option<&'static str>,
    kind: PhantomData<fn() -> W>,
}

impl<W> Default for Selected<W> {
    fn default() -> Self {
        Self {
            group_version: None,
            labels: None,
            kind: PhantomData,
        }
    }
}

impl<W: Resource<DynamicType = ()>> Selected<W> {
    fn kind(&self) -> ApiResource {
        served::at::<W>(self.group_version)
    }
}

/// What watches need of the process around them. Cheap to clone.
#[derive(Clone)]
pub struct Watcher {
    /// For all of them.
    pub client: Client,
    /// Each runs as a task of its own.
    pub tasks: Tasks,
    /// Each is a check of its own, which says what is wrong.
    pub health: Health,
}

impl Watcher {
    /// Keeps `watched` current until `stop`. Of each object that the server sends only what `read` makes of it is kept.
    pub fn follow<W, T: Cached, R>(
        &self,
        watched: &Arc<Watched<T>>,
        read: impl Fn(W) -> R + Send + 'static,
        stop: &CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
        R: Into<Reading<T>> + 'static,
    {
        self.follow_selected(Selected::default(), watched, read, stop);
    }

    /// The same in another version of the kind's group, such as `storage.k8s.io/v1beta1`.
    pub fn follow_at<W, T: Cached, R>(
        &self,
        group_version: Option<&'static str>,
        watched: &Arc<Watched<T>>,
        read: impl Fn(W) -> R + Send + 'static,
        stop: &CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
        R: Into<Reading<T>> + 'static,
    {
        let selected = Selected {
            group_version,
            ..Selected::default()
        };
        self.follow_selected(selected, watched, read, stop);
    }

    /// The same for objects with these labels: a selector, as Kubernetes writes it.
    pub fn follow_labelled<W, T: Cached, R>(
        &self,
        labels: &'static str,
        watched: &Arc<Watched<T>>,
        read: impl Fn(W) -> R + Send + 'static,
        stop: &CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
        R: Into<Reading<T>> + 'static,
    {
        let selected = Selected {
            labels: Some(labels),
            ..Selected::default()
        };
        self.follow_selected(selected, watched, read, stop);
    }

    fn follow_selected<W, T: Cached, R>(
        &self,
        selected: Selected<W>,
        watched: &Arc<Watched<T>>,
        read: impl Fn(W) -> R + Send + 'static,
        stop: &CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
        R: Into<Reading<T>> + 'static,
    {
        let name = format!("watch {}", W::plural(&()));
        let check = self.health.check(name.as_str());
        let client = self.client.clone();
        let task = Arc::clone(watched).follow_selected(client, selected, read, check, stop.clone());
        self.tasks.spawn(name, task);
    }
}
