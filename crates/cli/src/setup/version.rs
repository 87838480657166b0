//! Versions of releases, as definitions carry them.

use std::cmp::Ordering;

/// Of two versions such as `0.10.2`, which is newer. What is no number counts as 0, and what follows a `-` comes before the
/// release itself.
pub fn compare(one: &str, other: &str) -> Ordering {
    parts(one).cmp(&parts(other))
}

fn parts(version: &str) -> ([u64; 3], bool) {
    let (numbers, before) = match version.split_once('-') {
        Some((numbers, _)) => (numbers, false),
        None => (version, true),
    };
    let mut parts = [0; 3];
    for (part, text) in parts.iter_mut().zip(numbers.split('.')) {
        *part = text.parse().unwrap_or(0);
    }
    (parts, before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_between_dots() {
        for (older, newer) in [
            ("0.1.0", "0.1.1"),
            ("0.9.0", "0.10.0"),
            ("0.1.0-rc.1", "0.1.0"),
            ("", "0.0.1"),
        ] {
            assert_eq!(compare(older, newer), Ordering::Less, "{older} {newer}");
            assert_eq!(compare(newer, older), Ordering::Greater, "{newer} {older}");
        }
        assert_eq!(compare("1.2.3", "1.2.3"), Ordering::Equal);
    }
}
