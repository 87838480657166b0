//! Mount options of wekafs in the words of NFS.

use crate::nfs::NfsVersion;
use crate::options::{COMMON, Options, Vocabulary};

/// What NFS understands and wekafs does not: people may ask for it where a node mounts by NFS.
pub(crate) const KNOWN: [&str; 28] = [
    "ac",
    "noac",
    "acdirmax",
    "acdirmin",
    "acregmax",
    "acregmin",
    "actimeo",
    "cto",
    "nocto",
    "hard",
    "soft",
    "softerr",
    "intr",
    "lock",
    "nolock",
    "lookupcache",
    "nconnect",
    "max_connect",
    "port",
    "proto",
    "rdirplus",
    "nordirplus",
    "retrans",
    "rsize",
    "wsize",
    "sec",
    "timeo",
    "xprtsec",
];

/// How long entries may be believed, in milliseconds, on wekafs.
const MAX_AGE: &str = "dentry_max_age_positive";

/// What excludes each other.
const EXCLUSIVE: [&str; 4] = [
    "sync,async",
    "ac,noac",
    "hard,soft,softerr",
    "rdirplus,nordirplus",
];

/// The options of a mount by NFS. How a filesystem may cache is said in other words; what NFS has no word for is left out.
pub(crate) fn translate(options: &Options, version: NfsVersion) -> Options {
    let vocabulary = Vocabulary::new(EXCLUSIVE, std::iter::empty::<&str>());
    let mut translated = Options::parse("hard,async,rdirplus");
    for (name, value) in options.iter() {
        let words: Vec<String> = match (name, value) {
            ("writecache", _) => vec!["async".to_owned()],
            // Nothing may be believed, and nothing held back.
            ("coherent" | "forcedirect", _) => vec!["sync".to_owned(), "noac".to_owned()],
            ("readcache", _) => vec!["ac".to_owned()],
            (MAX_AGE, Some(millis)) => max_age(millis),
            (name, value) if KNOWN.contains(&name) || COMMON.contains(&name) => {
                vec![value.map_or_else(|| name.to_owned(), |value| format!("{name}={value}"))]
            }
            _ => Vec::new(),
        };
        for word in words {
            translated.add(&word, &vocabulary);
        }
    }
    translated.add(&format!("vers={version}"), &vocabulary);
    translated
}

/// Seconds, rounded up.
fn max_age(millis: &str) -> Vec<String> {
    let Ok(millis) = millis.parse::<u64>() else {
        return Vec::new();
    };
    let seconds = millis.div_ceil(1000);
    vec![format!("acdirmax={seconds}"), format!("acregmax={seconds}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caching_is_said_in_the_words_of_nfs() {
        for (given, translated) in [
            ("", "async,hard,rdirplus,vers=4.1"),
            ("sync_on_close,writecache", "async,hard,rdirplus,vers=4.1"),
            ("forcedirect", "hard,noac,rdirplus,sync,vers=4.1"),
            ("coherent,acl", "hard,noac,rdirplus,sync,vers=4.1"),
            ("readcache", "ac,async,hard,rdirplus,vers=4.1"),
            (
                "dentry_max_age_positive=1500",
                "acdirmax=2,acregmax=2,async,hard,rdirplus,vers=4.1",
            ),
            (
                "container_name=x,inode_bits=64,noatime,ro",
                "async,hard,noatime,rdirplus,ro,vers=4.1",
            ),
            (
                "nconnect=4,soft,timeo=100",
                "async,nconnect=4,rdirplus,soft,timeo=100,vers=4.1",
            ),
        ] {
            let options = translate(&Options::parse(given), NfsVersion::V4_1);
            assert_eq!(options.to_string(), translated, "{given}");
        }
        let old = translate(&Options::default(), NfsVersion::V3);
        assert!(old.to_string().ends_with("vers=3"), "{old}");
    }
}
