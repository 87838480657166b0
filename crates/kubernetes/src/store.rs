//! The objects of one kind, as last heard.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::RwLock;

/// An object that is kept.
pub trait Cached: Send + Sync + 'static {
    /// What it is found by: the uid of a claim, the name of everything else.
    fn key(&self) -> &str;

    /// The key of an object as the server names it.
    fn key_of(metadata: &ObjectMeta) -> Option<&str> {
        metadata.name.as_deref()
    }

    /// What else it is looked up by, without a walk over all of them.
    fn group(&self) -> Option<String> {
        None
    }

    /// The same, for kinds that are looked up in several ways.
    fn groups(&self) -> Vec<String> {
        self.group().into_iter().collect()
    }
}

/// The same without the room that decoding left for more: there may be thousands of them.
pub fn exact<T>(mut list: Vec<T>) -> Vec<T> {
    list.shrink_to_fit();
    list
}

/// What happened to an object.
#[derive(Debug)]
pub enum Change<T> {
    /// It is new, or different.
    Set {
        /// What was known before.
        old: Option<Arc<T>>,
        /// What is known now.
        new: Arc<T>,
    },
    /// It is gone, or no longer of interest.
    Gone(Arc<T>),
}

impl<T> Change<T> {
    /// The object as it is, or was last.
    pub fn object(&self) -> &Arc<T> {
        match self {
            Self::Set { new, .. } => new,
            Self::Gone(last) => last,
        }
    }
}

/// All objects of one kind. Readers get an [`Arc`] and hold no lock.
#[derive(Debug)]
pub struct Store<T> {
    content: RwLock<Content<T>>,
}

#[derive(Debug)]
struct Content<T> {
    objects: HashMap<Box<str>, Arc<T>>,
    groups: HashMap<String, HashSet<Box<str>>>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            content: RwLock::new(Content {
                objects: HashMap::new(),
                groups: HashMap::new(),
            }),
        }
    }
}

impl<T: Cached> Store<T> {
    /// The object of this key.
    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        self.content.read().objects.get(key).cloned()
    }

    /// The objects of a group.
    pub fn in_group(&self, group: &str) -> Vec<Arc<T>> {
        let content = self.content.read();
        let keys = content.groups.get(group).into_iter().flatten();
        keys.filter_map(|key| content.objects.get(key).cloned())
            .collect()
    }

    /// How many are in a group.
    pub fn count_in_group(&self, group: &str) -> usize {
        self.content
            .read()
            .groups
            .get(group)
            .map_or(0, HashSet::len)
    }

    /// All of them; for starts and rare events only.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.content.read().objects.values().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.content.read().objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Called twice with the same object: it replaces itself.
    pub fn set(&self, object: T) -> Change<T> {
        let new = Arc::new(object);
        let mut content = self.content.write();
        let key: Box<str> = new.key().into();
        let old = content.objects.insert(key.clone(), Arc::clone(&new));
        if let Some(old) = &old {
            content.leave(old);
        }
        for group in new.groups() {
            let members = content.groups.entry(group).or_default();
            members.insert(key.clone());
        }
        Change::Set { old, new }
    }

    /// Called twice: the second finds nothing.
    pub fn remove(&self, key: &str) -> Option<Change<T>> {
        let mut content = self.content.write();
        let last = content.objects.remove(key)?;
        content.leave(&last);
        Some(Change::Gone(last))
    }

    /// The keys that `seen` does not have: objects that went away while nobody watched.
    pub fn missing_from(&self, seen: &HashSet<Box<str>>) -> Vec<Box<str>> {
        let content = self.content.read();
        let keys = content.objects.keys();
        keys.filter(|key| !seen.contains(*key)).cloned().collect()
    }
}

impl<T: Cached> Content<T> {
    fn leave(&mut self, object: &T) {
        for group in object.groups() {
            if let Some(members) = self.groups.get_mut(&group) {
                members.remove(object.key());
                if members.is_empty() {
                    self.groups.remove(&group);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ship(&'static str, &'static str);

    impl Cached for Ship {
        fn key(&self) -> &str {
            self.0
        }
        fn group(&self) -> Option<String> {
            (!self.1.is_empty()).then(|| self.1.to_owned())
        }
    }

    #[test]
    fn an_object_moves_from_group_to_group_and_leaves_none_behind() {
        let store = Store::default();
        store.set(Ship("anna", "north"));
        store.set(Ship("berta", "north"));
        assert_eq!(store.count_in_group("north"), 2);
        store.set(Ship("anna", "south"));
        assert_eq!(store.in_group("north")[0].0, "berta");
        assert_eq!(store.in_group("south")[0].0, "anna");
        store.set(Ship("anna", ""));
        store.remove("berta");
        assert!(store.content.read().groups.is_empty());
        assert_eq!(store.len(), 1);
        assert!(store.remove("berta").is_none());
    }

    #[test]
    fn an_object_that_stays_in_its_group_is_in_it_once() {
        let store = Store::default();
        store.set(Ship("anna", "north"));
        let change = store.set(Ship("anna", "north"));
        assert!(matches!(change, Change::Set { old: Some(_), .. }));
        assert_eq!(store.count_in_group("north"), 1);
    }
}
