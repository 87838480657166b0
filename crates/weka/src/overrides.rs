//! Annotations by which a claim or a pod changes the mount options of its volumes.
//!
//! A claim: `weka.io/mount-options-override: "-forcedirect,+readcache,noatime"`. A pod, which may have many volumes:
//! `weka.io/mount-options-overrides`, a line (or part, separated by `;`) per claim: `<pattern of claim names>: <changes>`.

use regex::Regex;

use crate::options::{OptionError, Options, Vocabulary};

/// On a PersistentVolumeClaim.
pub(crate) const OF_CLAIM: &str = "weka.io/mount-options-override";
/// On a Pod.
pub(crate) const OF_POD: &str = "weka.io/mount-options-overrides";

/// Changes to options, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Changes(Vec<Change>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Add(String),
    Remove(String),
}

impl Changes {
    /// Reads the annotation of a claim.
    pub(crate) fn of_claim(text: &str) -> Self {
        let changes = text.split(',').map(str::trim).filter_map(|word| {
            let (remove, name) = match word.strip_prefix('-') {
                Some(name) => (true, name),
                None => (false, word.strip_prefix('+').unwrap_or(word)),
            };
            let name = name.trim();
            if name.is_empty() {
                return None;
            }
            Some(if remove {
                Change::Remove(name.to_owned())
            } else {
                Change::Add(name.to_owned())
            })
        });
        Self(changes.collect())
    }

    /// Reads the annotation of a pod for one claim: the first pattern that matches the whole name counts. A pattern
    /// that cannot be read matches nothing.
    pub(crate) fn of_pod(text: &str, claim: &str) -> Self {
        let rules = text.split(['\n', ';']).map(str::trim);
        for rule in rules.filter(|rule| !rule.is_empty() && !rule.starts_with('#')) {
            let Some((pattern, changes)) = rule.rsplit_once(':') else {
                continue;
            };
            match Regex::new(&format!("^(?:{})$", pattern.trim())) {
                Ok(pattern) if pattern.is_match(claim) => return Self::of_claim(changes),
                Ok(_) => {}
                Err(_) => {
                    tracing::warn!(
                        pattern,
                        "Ignoring an invalid pattern in the annotation {OF_POD}."
                    );
                }
            }
        }
        Self::default()
    }

    /// Makes the changes.
    pub(crate) fn apply(
        &self,
        options: &mut Options,
        vocabulary: &Vocabulary,
    ) -> Result<(), OptionError> {
        for change in &self.0 {
            match change {
                Change::Add(word) => {
                    Options::parse(word).check(vocabulary)?;
                    options.add(word, vocabulary);
                }
                Change::Remove(word) => {
                    options.remove(word);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(changes: &Changes, to: &str) -> String {
        let mut options = Options::parse(to);
        changes.apply(&mut options, &Vocabulary::default()).unwrap();
        options.to_string()
    }

    #[test]
    fn a_claim_adds_and_removes_options() {
        for (text, to, result) in [
            (
                "-forcedirect,+readcache,noatime",
                "forcedirect,acl",
                "acl,noatime,readcache",
            ),
            ("-sync_on_close", "sync_on_close,writecache", "writecache"),
            ("forcedirect", "writecache", "forcedirect"),
            (" + acl , - noatime ,,+,-", "noatime", "acl"),
            ("", "acl", "acl"),
        ] {
            assert_eq!(applied(&Changes::of_claim(text), to), result, "{text}");
        }
    }

    #[test]
    fn a_pod_speaks_of_claims_by_pattern_and_the_first_match_counts() {
        let text = "# comment\nscratch-.*: +readcache\n[broken: +acl; data: -writecache,+forcedirect\n.*: noatime";
        for (claim, result) in [
            ("scratch-1", "readcache"),
            ("data", "forcedirect"),
            ("database", "noatime,writecache"),
            ("my-scratch-1", "noatime,writecache"),
        ] {
            assert_eq!(
                applied(&Changes::of_pod(text, claim), "writecache"),
                result,
                "{claim}"
            );
        }
        assert_eq!(Changes::of_pod("no colon", "x"), Changes::default());
    }

    #[test]
    fn unknown_options_are_refused_here_too() {
        let mut options = Options::default();
        let changes = Changes::of_claim("+writecash");
        assert!(changes.apply(&mut options, &Vocabulary::default()).is_err());
    }
}
