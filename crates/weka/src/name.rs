//! Names on the array that are derived from names of Kubernetes.
//!
//! Volumes of earlier drivers are found by these names: not one byte may change. SHA-1 is part of them and protects
//! nothing.

use sha1::{Digest, Sha1};

/// How much of a name is readable in the name of a directory.
const DIRECTORY_CHARACTERS: usize = 64;

/// How much of it is readable in the name of a filesystem or a snapshot, and how much of its hash follows.
const OBJECT_CHARACTERS: usize = 12;
const SHORT_HASH: usize = 12;

/// The longest prefix of such a name.
pub(crate) const LONGEST_PREFIX: usize = 7;

/// Characters of a SHA-1 in hexadecimal.
const HEX_CHARACTERS: usize = 40;

/// RFC 4648.
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The characters of a name that the array takes, up to `longest` of them. `:` is one of them by an old mistake.
fn readable(name: &str, longest: usize) -> String {
    name.chars()
        .filter(|&c| is_readable(c))
        .take(longest)
        .collect()
}

fn is_readable(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '_')
}

/// The directory of the volume with this name.
pub(crate) fn directory(name: &str) -> String {
    let hash = hex(&Sha1::digest(name));
    format!("{}-{hash}", readable(name, DIRECTORY_CHARACTERS))
}

/// Whether a directory is called as [`directory`] calls them: the only mark that volumes have.
///
/// Where nothing of the name can have been left out, the hash must be that of the name.
pub(crate) fn is_directory(text: &str) -> bool {
    let Some((name, hash)) = text.rsplit_once('-') else {
        return false;
    };
    let is_hash = hash.len() == HEX_CHARACTERS
        && hash
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    let is_name = name.len() <= DIRECTORY_CHARACTERS && name.chars().all(is_readable);
    if !is_hash || !is_name {
        return false;
    }
    // The provisioner's own names are never shortened or filtered.
    !is_claim_name(name) || directory(name) == text
}

/// `pvc-` and a UUID: what the provisioner calls volumes.
fn is_claim_name(name: &str) -> bool {
    let Some(uuid) = name.strip_prefix("pvc-") else {
        return false;
    };
    let groups: Vec<_> = uuid.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups
            .iter()
            .all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// What a filesystem or a snapshot with this name of Kubernetes is called, after its prefix; also the access point of a
/// volume that is a snapshot.
pub(crate) fn object(name: &str) -> String {
    format!("{}-{}", readable(name, OBJECT_CHARACTERS), short_hash(name))
}

/// Whether a text is what [`object`] makes of a name.
pub(crate) fn is_object(text: &str) -> bool {
    let Some((name, _)) = text.rsplit_once('-') else {
        return false;
    };
    ends_like_object(text) && name.len() <= OBJECT_CHARACTERS && name.chars().all(is_readable)
}

/// The same after a prefix: any, because people change it.
pub(crate) fn ends_like_object(text: &str) -> bool {
    let hash = text.rsplit_once('-').map(|(_, hash)| hash);
    hash.is_some_and(is_short_hash)
}

/// Whether a filesystem is called by such a name after another prefix than this one.
pub(crate) fn has_other_prefix(text: &str, prefix: &str, object: &str) -> bool {
    let found = text.strip_suffix(object);
    found.is_some_and(|found| found != prefix && found.len() <= LONGEST_PREFIX)
}

/// The access point of a snapshot of a volume.
pub(crate) fn of_snapshot(snapshot: &str, volume_id: &str) -> String {
    short_hash(&format!("{snapshot}:{volume_id}"))
}

/// The access point of the empty snapshot of a filesystem, from which volumes are made.
pub(crate) fn of_seed(filesystem: &str) -> String {
    short_hash(filesystem)
}

fn short_hash(text: &str) -> String {
    let mut hash = base32(&Sha1::digest(text));
    hash.truncate(SHORT_HASH);
    hash
}

fn is_short_hash(text: &str) -> bool {
    text.len() == SHORT_HASH && text.bytes().all(|byte| BASE32.contains(&byte))
}

/// The directory in which a filesystem with these options is mounted for our own use.
pub(crate) fn mount_point(filesystem: &str, options: &str) -> String {
    let hash = base32(&Sha1::digest(format!("{filesystem}:{options}")));
    format!("{}-{hash}", readable(filesystem, DIRECTORY_CHARACTERS))
}

/// A name of the cluster's as one plain component of a path.
pub(crate) fn plain(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    name.chars().map(plain).take(DIRECTORY_CHARACTERS).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Base 32 of as many bytes as need no padding, such as the 20 of a SHA-1.
fn base32(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(5) {
        let number = group
            .iter()
            .fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
        let number = number << (8 * (5 - group.len()));
        for digit in 0..8 {
            let index = usize::try_from(number >> (35 - 5 * digit) & 31).unwrap_or_default();
            text.push(char::from(BASE32[index]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "pvc-d00ba0fe-04a0-4916-8fea-ddbbc8f43380";

    #[test]
    fn a_directory_is_called_as_it_always_was() {
        assert_eq!(
            directory(NAME),
            "pvc-d00ba0fe-04a0-4916-8fea-ddbbc8f43380-a1659c8a7ded3c3c05d6facffd69cbf79b95604c"
        );
    }

    #[test]
    fn filesystems_and_snapshots_are_called_as_they_always_were() {
        assert_eq!(object(NAME), "pvc-d00ba0fe-UFSZZCT55U6D");
        assert_eq!(of_seed("default"), "OUC5MSSU4BQ3");
        for name in [NAME, "x", "имя:тест a/b", &"long".repeat(40), "", "a-b"] {
            assert!(is_object(&object(name)), "{name}");
            assert!(ends_like_object(&format!("csivol-{}", object(name))));
        }
        for text in [
            "",
            "default",
            "UFSZZCT55U6D",
            "data-2024",
            "pvc-d00ba0fe-ufszzct55u6d",
            "pvc-d00ba0fe-UFSZZCT55U6",
            "pvc-d00ba0fe-UFSZZCT55U61",
        ] {
            assert!(!is_object(text) && !ends_like_object(text), "{text}");
        }
        assert!(!is_object("csivol-pvc-d00ba0fe-UFSZZCT55U6D"));
    }

    #[test]
    fn a_name_is_known_after_another_prefix() {
        let (other, object) = (object("other"), object(NAME));
        for (text, is_so) in [
            (format!("csivol-{object}"), true),
            (object.clone(), true),
            (format!("v-{object}"), false),
            (format!("csivol-{other}"), false),
            (format!("a-copy-of-{object}"), false),
            (format!("csivol-{object}-old"), false),
        ] {
            assert_eq!(has_other_prefix(&text, "v-", &object), is_so, "{text}");
        }
    }

    #[test]
    fn mount_points_are_called_as_they_always_were() {
        assert_eq!(
            mount_point("default", "sync_on_close,writecache"),
            "default-5O7LKAXFYWBCOH5LEWVEJO6ANMWBVDIK"
        );
        assert_eq!(
            mount_point("default", "acl,writecache"),
            "default-IVPDZUXJDW3Q7AYI6FZ63EIWXEEHSFSH"
        );
    }

    #[test]
    fn only_plain_characters_stay_readable() {
        assert_eq!(readable("имя:тест a/b", 64), ":ab");
        assert_eq!(readable("a+b_c.d-e", 64), "ab_c.d-e");
        assert_eq!(readable(&"x".repeat(100), 64).len(), 64);
    }

    #[test]
    fn a_name_from_elsewhere_is_one_component() {
        assert_eq!(plain("28e2e104-2e42-c6f8"), "28e2e104-2e42-c6f8");
        assert_eq!(plain("../../etc"), "______etc");
        assert_eq!(plain(".."), "__");
    }

    #[test]
    fn what_was_derived_is_recognised() {
        for name in [NAME, "x", "имя:тест a/b", &"long".repeat(40), "", "a-b"] {
            assert!(is_directory(&directory(name)), "{name}");
        }
    }

    #[test]
    fn what_was_not_derived_is_not_ours() {
        let other_hash = directory("another");
        let (_, hash) = other_hash.rsplit_once('-').unwrap();
        for text in [
            "",
            "data",
            "home-of-somebody",
            "x-a1659c8a7ded3c3c05d6facffd69cbf79b95604",
            "x-A1659C8A7DED3C3C05D6FACFFD69CBF79B95604C",
            "a/b-a1659c8a7ded3c3c05d6facffd69cbf79b95604c",
            &format!("{NAME}-{hash}"),
            &format!("{}-{hash}", "x".repeat(65)),
        ] {
            assert!(!is_directory(text), "{text}");
        }
    }
}
