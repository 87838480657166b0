//! One watch, one store, any number of listeners.

use std::collections::HashSet;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::ApiResource;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff, watcher};
use kube::{Api, Client, Resource};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use stowage_service::health::Check;
use stowage_service::{Health, Tasks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::answer::{self, Answer};
use crate::served::{self, Served};
use crate::store::{Cached, Change, Store};

/// The default is half a minute, and a server that was away costs it twice: when it is found again, its first answer
/// is that what we know is too old. All that time claims would wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// In seconds: how long the server keeps a watch. It ends with a bookmark, and is taken up again where it ended. One that
/// does not end in time is dead (five seconds later), and what changed meanwhile is learned then.
const WATCH_FOR: u32 = 25;

/// Called with every change, in order, on the task of the watch: it must only note down what to do.
type Listener<T> = Box<dyn Fn(&Change<T>) + Send + Sync>;

/// A kind that is watched once, however many roles read it.
pub struct Watched<T> {
    store: Store<T>,
    listeners: RwLock<Vec<Listener<T>>>,
    synced: watch::Sender<bool>,
}

impl<T> Default for Watched<T> {
    fn default() -> Self {
        Self {
            store: Store::default(),
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
    pub async fn follow<W>(
        self: Arc<Self>,
        client: Client,
        read: impl Fn(W) -> Option<T> + Send,
        check: Check,
        stop: CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let all = Selected::<W>::default();
        self.follow_selected(client, all, read, check, stop).await;
    }

    async fn follow_selected<W>(
        self: Arc<Self>,
        client: Client,
        selected: Selected<W>,
        read: impl Fn(W) -> Option<T> + Send,
        check: Check,
        stop: CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
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

    fn take<W: Resource<DynamicType = ()>>(
        &self,
        event: watcher::Event<Served<W>>,
        read: &impl Fn(W) -> Option<T>,
        listed: &mut HashSet<Box<str>>,
    ) {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) => {
                if let Some(object) = read(object.0) {
                    listed.insert(object.key().into());
                    self.notify(&self.store.set(object));
                }
            }
            watcher::Event::InitDone => {
                for key in self.store.missing_from(listed) {
                    self.forget(&key);
                }
                *listed = HashSet::new();
                self.synced.send_replace(true);
            }
            watcher::Event::Apply(object) => {
                let key = T::key_of(object.meta()).map(Box::<str>::from);
                match (read(object.0), key) {
                    (Some(object), _) => self.notify(&self.store.set(object)),
                    // It was of interest and is no longer.
                    (None, Some(key)) => self.forget(&key),
                    (None, None) => {}
                }
            }
            watcher::Event::Delete(object) => {
                if let Some(key) = T::key_of(object.meta()) {
                    self.forget(key);
                }
            }
        }
    }

    fn forget(&self, key: &str) {
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
    pub fn follow<W, T: Cached>(
        &self,
        watched: &Arc<Watched<T>>,
        read: impl Fn(W) -> Option<T> + Send + 'static,
        stop: &CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        self.follow_selected(Selected::default(), watched, read, stop);
    }

    /// The same in another version of the kind's group, such as `storage.k8s.io/v1beta1`.
    pub fn follow_at<W, T: Cached>(
        &self,
        group_version: Option<&'static str>,
        watched: &Arc<Watched<T>>,
        read: impl Fn(W) -> Option<T> + Send + 'static,
        stop: &CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let selected = Selected {
            group_version,
            ..Selected::default()
        };
        self.follow_selected(selected, watched, read, stop);
    }

    /// The same for objects with these labels: a selector, as Kubernetes writes it.
    pub fn follow_labelled<W, T: Cached>(
        &self,
        labels: &'static str,
        watched: &Arc<Watched<T>>,
        read: impl Fn(W) -> Option<T> + Send + 'static,
        stop: &CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let selected = Selected {
            labels: Some(labels),
            ..Selected::default()
        };
        self.follow_selected(selected, watched, read, stop);
    }

    fn follow_selected<W, T: Cached>(
        &self,
        selected: Selected<W>,
        watched: &Arc<Watched<T>>,
        read: impl Fn(W) -> Option<T> + Send + 'static,
        stop: &CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let name = format!("watch {}", W::plural(&()));
        let check = self.health.check(name.as_str());
        let client = self.client.clone();
        let task = Arc::clone(watched).follow_selected(client, selected, read, check, stop.clone());
        self.tasks.spawn(name, task);
    }
}

/// The pauses of the default, but shorter. They stay random: a server that comes back has many clients.
#[derive(Default)]
struct Pauses(DefaultBackoff);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(shortened)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0.reset();
    }
}

fn shortened(pause: Duration) -> Duration {
    if pause < LONGEST_PAUSE {
        return pause;
    }
    let half = LONGEST_PAUSE / 2;
    let rest = pause.as_nanos() % half.as_nanos();
    half + Duration::from_nanos(u64::try_from(rest).unwrap_or_default())
}

/// Reports what is wrong with a watch, once: it is tried again every few seconds.
fn report(kind: &str, error: &watcher::Error, check: &Check, last: &mut String) {
    let told = match missing_rule(error) {
        Some(verb) => format!(
            "the service account may not {verb} {kind}: add `{verb}` on `{kind}` to its ClusterRole"
        ),
        None => answer::chain(error),
    };
    if *last != told {
        tracing::warn!(kind, reason = told, "A watch does not work; trying again.");
        check.not_ready(told.as_str());
        *last = told;
    }
}

/// The verb that the role lacks, if that is the trouble.
fn missing_rule(error: &watcher::Error) -> Option<&'static str> {
    let verb = match error {
        watcher::Error::InitialListFailed(_) => "list",
        _ => "watch",
    };
    matches!(Answer::of_watch(error), Answer::Forbidden(_)).then_some(verb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_tried_again_every_few_seconds() {
        let mut pauses = Pauses::default();
        let all: Vec<_> = pauses.by_ref().take(20).collect();
        assert!(all.iter().all(|pause| *pause <= LONGEST_PAUSE), "{all:?}");
        assert!(
            all[5..].iter().all(|pause| *pause >= LONGEST_PAUSE / 2),
            "{all:?}"
        );
        pauses.reset();
        assert!(pauses.next().unwrap() < Duration::from_secs(2));
    }
}
