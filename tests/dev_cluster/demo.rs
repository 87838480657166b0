//! The demos, as a newcomer runs them: on a cluster of their own, from nothing.

use stowage_tests::OwnCluster;

/// What a line says without what is different each time: numbers, names with numbers in them, days and months, nodes.
fn shape(line: &str) -> Vec<&str> {
    const CALENDAR: &str =
        "Mon Tue Wed Thu Fri Sat Sun Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    line.split_whitespace()
        .filter(|word| !word.contains(|letter: char| letter.is_ascii_digit()))
        .filter(|word| !word.starts_with("node-"))
        .filter(|word| !CALENDAR.split(' ').any(|name| name == *word))
        .collect()
}

/// The example of the README, without the line that starts it.
fn example() -> Vec<&'static str> {
    let readme = include_str!("../../README.md");
    let (_, example) = readme.split_once("$ ./x demo\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    example.lines().filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_demo_prints_what_the_readme_shows_and_that_of_weka_what_it_promises() {
    let cluster = OwnCluster::named("test-demo");
    let said = cluster.run(&["demo"]);
    let mut lines = said.lines().map(shape);
    // How many lines of one shape follow each other is a matter of seconds.
    let mut example: Vec<_> = example().into_iter().map(shape).collect();
    example.dedup();
    assert!(example.len() > 20, "{example:?}");
    for expected in example {
        let found = lines.any(|line| line == expected);
        assert!(found, "the demo does not print {expected:?} there:\n{said}");
    }
    let weka = cluster.run(&["demo", "weka"]);
    for part in ["my-csi-app-api", "csi-volumes", "UTC", "quota exceeded"] {
        assert!(weka.contains(part), "{part}: {weka}");
    }
}
