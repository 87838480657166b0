//! Facts about some objects, kept current by a watch for as long as somebody holds it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Error, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use stowage_kubernetes::answer;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// How long the first list may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// By name of the object.
type Facts<F> = Arc<Mutex<BTreeMap<String, F>>>;

pub(super) struct Followed<F> {
    facts: Facts<F>,
    is_read: watch::Receiver<bool>,
    _watch: AbortOnDropHandle<()>,
}

impl<F: Clone + PartialEq + Send + 'static> Followed<F> {
    /// Begins to watch. `tell` is called after each change of a fact, and not for the first list.
    pub(super) fn start<K>(
        api: Api<K>,
        config: watcher::Config,
        read: impl Fn(&K) -> Option<F> + Send + 'static,
        tell: impl Fn() + Send + 'static,
    ) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let facts = Facts::default();
        let (sender, is_read) = watch::channel(false);
        let mut following = Following {
            facts: Arc::clone(&facts),
            listed: BTreeMap::new(),
            is_read: sender,
            tell,
        };
        let work = async move {
            let mut events = watcher(api, config).default_backoff().boxed();
            while let Some(event) = events.next().await {
                following.take_in(event, &read);
            }
        };
        Self {
            facts,
            is_read,
            _watch: AbortOnDropHandle::new(tokio::spawn(work)),
        }
    }

    /// All facts, as new as the watch is.
    pub(super) async fn all(&self) -> Result<Vec<F>, Error> {
        let mut is_read = self.is_read.clone();
        let read = tokio::time::timeout(PATIENCE, is_read.wait_for(|it| *it)).await;
        if !matches!(read, Ok(Ok(_))) {
            let told = "a watch has not begun in time";
            return Err(Error::Service(told.into()));
        }
        Ok(self.facts.lock().values().cloned().collect())
    }
}

struct Following<F, T> {
    facts: Facts<F>,
    /// What a list that is under way has brought so far.
    listed: BTreeMap<String, F>,
    is_read: watch::Sender<bool>,
    tell: T,
}

impl<F: PartialEq, T: Fn()> Following<F, T> {
    fn take_in<K: Resource>(
        &mut self,
        event: Result<watcher::Event<K>, watcher::Error>,
        read: impl Fn(&K) -> Option<F>,
    ) {
        let is_news = match event {
            Ok(watcher::Event::Init) => {
                self.listed.clear();
                false
            }
            Ok(watcher::Event::InitApply(object)) => {
                if let Some(fact) = read(&object) {
                    self.listed.insert(object.name_any(), fact);
                }
                false
            }
            Ok(watcher::Event::InitDone) => {
                *self.facts.lock() = std::mem::take(&mut self.listed);
                // Whatever changed while nobody watched.
                self.is_read.send_replace(true)
            }
            Ok(watcher::Event::Apply(object)) => self.put(object.name_any(), read(&object)),
            Ok(watcher::Event::Delete(object)) => self.put(object.name_any(), None),
            Err(error) => {
                let error = answer::chain(&error);
                tracing::debug!(error, "A watch was interrupted and is started again.");
                false
            }
        };
        if is_news {
            (self.tell)();
        }
    }

    /// Whether that is news.
    fn put(&self, name: String, fact: Option<F>) -> bool {
        let mut facts = self.facts.lock();
        match fact {
            Some(fact) if facts.get(&name) == Some(&fact) => false,
            Some(fact) => {
                facts.insert(name, fact);
                true
            }
            None => facts.remove(&name).is_some(),
        }
    }
}
