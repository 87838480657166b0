//! Names of objects for names of requests.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};

/// Longer names have no room left for the name of a node after them.
const LONGEST: usize = 120;

/// The name of the object for the name in a request: the same, if objects and arrays can have it, as those of the sidecars
/// do (`pvc-...`, `snapshot-...`); else one that is made from it.
pub fn object_name(prefix: &str, name: &str) -> String {
    let is_plain = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-');
    let is_end = |letter: char| letter != '-';
    if name.len() <= LONGEST
        && name.chars().all(is_plain)
        && name.starts_with(is_end)
        && name.ends_with(is_end)
    {
        return name.to_owned();
    }
    let hash = digest(&SHA256, name.as_bytes());
    let mut text = format!("{prefix}-");
    for byte in hash.as_ref().iter().take(20) {
        // Text takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The name of the VolumeAttachment for a volume on a node.
pub fn attachment_name(volume: &str, node: &str) -> String {
    format!("{volume}.{node}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stay_and_others_are_made_plain_and_stay_apart() {
        let plain = "pvc-5a6c3c4e-7f5e-4a51-a7f5-0d8a2b1f6c11";
        assert_eq!(object_name("volume", plain), plain);
        let odd = ["A", "a b", "a.b", "-a", "ä", &"x".repeat(121)];
        let mut made: Vec<String> = odd.iter().map(|it| object_name("volume", it)).collect();
        for name in &made {
            assert_eq!(name.len(), "volume-".len() + 40, "{name}");
            assert_eq!(*name, object_name("volume", name), "a plain one");
        }
        made.dedup();
        assert_eq!(made.len(), odd.len());
    }
}
