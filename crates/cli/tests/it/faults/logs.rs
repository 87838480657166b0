//! What the processes wrote about something.

use std::fs;
use std::path::Path;

/// The last lines of each log in a directory that mention one of these words.
pub fn lines_about(directory: &Path, words: &[String], most: usize) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let about = |line: &&str| words.iter().any(|word| mentions(line, word));
        let lines: Vec<_> = text.lines().filter(about).collect();
        let name = file.file_stem().unwrap_or_default().display();
        let last = &lines[lines.len().saturating_sub(most)..];
        found.extend(last.iter().map(|line| format!("{name}: {line}")));
    }
    found
}

/// Whether a line has the word as a whole: `vol-5` is not in `vol-53`.
fn mentions(line: &str, word: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    line.match_indices(word)
        .any(|(at, _)| ends(&line[at + word.len()..]))
}

#[test]
fn names_are_found_whole() {
    assert!(mentions("handle=\"vol-5\"", "vol-5"));
    assert!(mentions("vol-5", "vol-5"));
    assert!(!mentions("handle=\"vol-53\"", "vol-5"));
    assert!(mentions("vol-53 and vol-5", "vol-5"));
}
