//! What the journal's Lease is called.

use super::document::digest;

const PREFIX: &str = "stowage-intents-";
/// The longest name of an object.
const LONGEST: usize = 253;

/// The name of the Lease with the journal of a driver; with a node, of the driver on that node.
///
/// A name that had to be changed to be one carries a hash, so that different drivers stay different.
pub fn journal_name(driver: &str, node: Option<&str>) -> String {
    let wanted = match node {
        Some(node) => format!("{PREFIX}{driver}-{node}"),
        None => format!("{PREFIX}{driver}"),
    };
    let mut name: String = wanted.chars().map(allowed).collect();
    if name == wanted && name.len() <= LONGEST && well_formed(&name) {
        return name;
    }
    let hash = digest(&wanted);
    name.truncate(LONGEST - hash.len() - 1);
    let parts: Vec<&str> = name
        .split('.')
        .map(|part| part.trim_matches('-'))
        .filter(|part| !part.is_empty())
        .collect();
    format!("{}-{hash}", parts.join("."))
}

fn allowed(letter: char) -> char {
    match letter.to_ascii_lowercase() {
        lower @ ('a'..='z' | '0'..='9' | '.' | '-') => lower,
        _ => '-',
    }
}

/// Each part between dots begins and ends with a letter or digit.
fn well_formed(name: &str) -> bool {
    let inside = |part: &str| !part.is_empty() && !part.starts_with('-') && !part.ends_with('-');
    name.split('.').all(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_and_node_are_in_the_name() {
        let driver = "hostpath.csi.k8s.io";
        assert_eq!(
            journal_name(driver, None),
            "stowage-intents-hostpath.csi.k8s.io"
        );
        assert_eq!(
            journal_name(driver, Some("node-1")),
            "stowage-intents-hostpath.csi.k8s.io-node-1"
        );
    }

    #[test]
    fn what_is_no_name_becomes_one_and_stays_different() {
        let long = "a".repeat(250);
        let names = [
            journal_name("Upper.case", None),
            journal_name("upper.case", None),
            journal_name("under_score", None),
            journal_name("under-score", None),
            journal_name("dot.-dash", None),
            journal_name("ends.", None),
            journal_name("ä", None),
            journal_name(&long, Some("x")),
            journal_name(&long, Some("y")),
        ];
        for (at, name) in names.iter().enumerate() {
            assert!(name.len() <= LONGEST && well_formed(name), "{name}");
            assert!(
                name.is_ascii() && name.starts_with("stowage-intents"),
                "{name}"
            );
            assert!(!names[..at].contains(name), "{name}");
        }
    }
}
