//! Mount options of wekafs: a set of names, some with values, in which later words win.

use std::collections::BTreeMap;
use std::fmt;

/// Set by the driver itself; what a class or a person says about them is left out.
const OURS: [&str; 3] = ["container_name", "token", "bind"];

/// What every filesystem understands.
pub(crate) const COMMON: [&str; 22] = [
    "async",
    "sync",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "diratime",
    "nodiratime",
    "lazytime",
    "dev",
    "nodev",
    "exec",
    "noexec",
    "suid",
    "nosuid",
    "ro",
    "rw",
    "context",
    "fscontext",
    "defcontext",
    "rootcontext",
];

/// What wekafs and its mount(8) understand besides.
const KNOWN: [&str; 22] = [
    "acl",
    "noacl",
    "coherent",
    "readcache",
    "writecache",
    "forcedirect",
    "dentry_cache",
    "dentry_max_age_positive",
    "dentry_max_age_negative",
    "sync_on_close",
    "nosync_on_close",
    "obs_direct",
    "noobs_direct",
    "gatherwrite",
    "inode_bits",
    "readahead_kb",
    "file_create_mask",
    "directory_create_mask",
    "verbose",
    "quiet",
    "defaults",
    "container_name",
];

/// Sets of options of which a mount has at most one.
pub(crate) const DEFAULT_EXCLUSIVE: [&str; 3] = [
    "readcache,writecache,coherent,forcedirect",
    "sync,async",
    "ro,rw",
];

/// The names that may be used, and which exclude each other.
#[derive(Debug, Clone)]
pub(crate) struct Vocabulary {
    exclusive: Vec<Vec<String>>,
    more: Vec<String>,
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self::new(DEFAULT_EXCLUSIVE, std::iter::empty::<&str>())
    }
}

impl Vocabulary {
    /// Sets of names that exclude each other, each separated by commas, and names that are known besides the usual ones.
    pub(crate) fn new<S: AsRef<str>, M: AsRef<str>>(
        exclusive: impl IntoIterator<Item = S>,
        more: impl IntoIterator<Item = M>,
    ) -> Self {
        let set = |set: S| words(set.as_ref()).map(str::to_owned).collect();
        Self {
            exclusive: exclusive.into_iter().map(set).collect(),
            more: more
                .into_iter()
                .map(|name| name.as_ref().to_owned())
                .collect(),
        }
    }

    fn knows(&self, name: &str) -> bool {
        KNOWN.contains(&name)
            || COMMON.contains(&name)
            || self.more.iter().any(|more| more == name)
            || self.exclusive.iter().flatten().any(|one| one == name)
    }
}

/// Why options cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OptionError {
    #[error(
        "mount option `{0}` is not known to wekafs: correct or remove it, or allow it with --allowedmountoptions"
    )]
    Unknown(String),
    #[error("mount option `{0}` contains a character that is not allowed: remove it")]
    Malformed(String),
}

/// Options by name. Written sorted, so that the same set is always the same text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Options {
    by_name: BTreeMap<String, Option<String>>,
}

impl Options {
    /// Reads a list separated by commas. A later word for the same name wins.
    pub(crate) fn parse(list: &str) -> Self {
        let mut options = Self::default();
        for word in words(list) {
            options.insert(word);
        }
        options
    }

    /// Whether all of them can be written and are known. What cannot be written comes first.
    pub(crate) fn check(&self, vocabulary: &Vocabulary) -> Result<(), OptionError> {
        let mut unknown = None;
        for (name, value) in &self.by_name {
            let text = written(name, value.as_deref());
            let shown = || text.chars().flat_map(char::escape_debug).take(60).collect();
            if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
                return Err(OptionError::Malformed(shown()));
            }
            if !vocabulary.knows(name) {
                unknown.get_or_insert_with(|| OptionError::Unknown(shown()));
            }
        }
        unknown.map_or(Ok(()), Err)
    }

    /// Adds all of `later`: each replaces what it excludes.
    pub(crate) fn merge(&mut self, later: &Self, vocabulary: &Vocabulary) {
        for (name, value) in &later.by_name {
            self.set(name, value.clone(), vocabulary);
        }
    }

    /// Adds one option written as a word, with what it excludes removed.
    pub(crate) fn add(&mut self, word: &str, vocabulary: &Vocabulary) {
        let (name, value) = split(word);
        self.set(name, value, vocabulary);
    }

    fn set(&mut self, name: &str, value: Option<String>, vocabulary: &Vocabulary) {
        for set in &vocabulary.exclusive {
            if set.iter().any(|one| one == name) {
                self.by_name.retain(|held, _| !set.contains(held));
            }
        }
        self.by_name.insert(name.to_owned(), value);
    }

    /// All of them, sorted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.by_name
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_deref()))
    }

    /// Takes an option away, whatever its value. Returns whether it was there.
    pub(crate) fn remove(&mut self, word: &str) -> bool {
        self.by_name.remove(split(word).0).is_some()
    }

    /// Takes away what the driver decides by itself.
    pub(crate) fn prune(&mut self) {
        for name in OURS {
            self.by_name.remove(name);
        }
    }

    /// The options as words, sorted.
    pub(crate) fn to_words(&self) -> Vec<String> {
        let word = |(name, value): (&String, &Option<String>)| written(name, value.as_deref());
        self.by_name.iter().map(word).collect()
    }

    fn insert(&mut self, word: &str) {
        let (name, value) = split(word);
        self.by_name.insert(name.to_owned(), value);
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_words().join(","))
    }
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

/// A value may itself hold `=`.
fn split(word: &str) -> (&str, Option<String>) {
    match word.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (word, None),
    }
}

fn written(name: &str, value: Option<&str>) -> String {
    value.map_or_else(|| name.to_owned(), |value| format!("{name}={value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(lists: &[&str]) -> String {
        let vocabulary = Vocabulary::default();
        let mut options = Options::default();
        for list in lists {
            options.merge(&Options::parse(list), &vocabulary);
        }
        options.to_string()
    }

    #[test]
    fn later_words_win_over_what_they_exclude() {
        for (lists, result) in [
            (vec!["writecache,sync_on_close"], "sync_on_close,writecache"),
            (vec!["writecache", "forcedirect"], "forcedirect"),
            (
                vec!["writecache,sync", "readcache,async"],
                "async,readcache",
            ),
            (vec!["noatime", "acl"], "acl,noatime"),
            (
                vec!["dentry_max_age_positive=1000", "dentry_max_age_positive=0"],
                "dentry_max_age_positive=0",
            ),
            (vec!["", " , ,acl "], "acl"),
            (vec!["fscontext=a=b"], "fscontext=a=b"),
        ] {
            assert_eq!(merged(&lists), result, "{lists:?}");
        }
    }

    #[test]
    fn sets_that_exclude_each_other_can_be_given() {
        let vocabulary = Vocabulary::new(["a,b"], ["c"]);
        let mut options = Options::parse("a,c,writecache");
        options.add("b", &vocabulary);
        options.add("coherent", &vocabulary);
        assert_eq!(options.to_string(), "b,c,coherent,writecache");
        assert!(Options::parse("a,b,c").check(&vocabulary).is_ok());
    }

    #[test]
    fn what_the_driver_decides_is_taken_away() {
        let mut options = Options::parse("container_name=x,token=secret,acl");
        options.prune();
        assert_eq!(options.to_string(), "acl");
        assert!(options.remove("acl") && !options.remove("acl"));
    }

    #[test]
    fn unknown_options_are_named() {
        let vocabulary = Vocabulary::default();
        let error = Options::parse("acl,writecash")
            .check(&vocabulary)
            .unwrap_err();
        assert_eq!(error, OptionError::Unknown("writecash".to_owned()));
        let error = Options::parse("inode_bits=a b")
            .check(&vocabulary)
            .unwrap_err();
        assert!(matches!(error, OptionError::Malformed(_)), "{error}");
    }
}
