//! The demos, as a newcomer runs them: on a cluster of their own, from nothing.

use stowage_tests::{OwnCluster, said};

/// What a line says without what is different each time: numbers, names with numbers in them, days and months, nodes and pods.
fn shape(line: &str) -> Vec<&str> {
    const CALENDAR: &str =
        "Mon Tue Wed Thu Fri Sat Sun Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    line.split_whitespace()
        .filter(|word| !word.contains(|letter: char| letter.is_ascii_digit()))
        .filter(|word| !word.starts_with("node-") && !word.starts_with("hostpath-"))
        // A column of newer servers, and what it says.
        .filter(|word| !["VOLUMEATTRIBUTESCLASS", "<unset>"].contains(word))
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

fn text_of(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

#[test]
fn the_demo_prints_what_the_readme_shows_and_the_others_what_they_promise() {
    let cluster = OwnCluster::named("test-demo");
    let output = cluster.try_run(&["demo"]);
    assert!(output.status.success(), "{}", said(&output));
    // Progress goes to one of its outputs, what it shows to the other; a terminal has both.
    let (shown, progress) = (text_of(&output.stdout), text_of(&output.stderr));
    let (mut shown, mut progress) = (shown.lines().map(shape), progress.lines().map(shape));
    // How many lines of one shape follow each other is a matter of seconds.
    let mut example: Vec<_> = example().into_iter().map(shape).collect();
    example.dedup();
    assert!(example.len() > 20, "{example:?}");
    for expected in example {
        let found = if expected.first() == Some(&"ok") {
            progress.any(|line| line == expected)
        } else {
            shown.any(|line| line == expected)
        };
        assert!(
            found,
            "the demo does not print {expected:?} there:\n{}",
            said(&output)
        );
    }
    let weka = cluster.run(&["demo", "weka"]);
    for part in ["my-csi-app-api", "csi-volumes", "UTC", "quota exceeded"] {
        assert!(weka.contains(part), "{part}: {weka}");
    }
    let operator = cluster.run(&["demo", "weka-operator"]);
    let shared = "storageclass-csi-demo-weka-io-default";
    for part in [
        "csiDeployed}'\ntrue\n",
        shared,
        "demo-csi-controller",
        "-csi-node",
        "Bound",
    ] {
        assert!(operator.contains(part), "{part}: {operator}");
    }
    let (_, after) = operator.rsplit_once("get pods\n").unwrap();
    for pod in ["one ", "other "] {
        let line = after.lines().find(|line| line.starts_with(pod)).unwrap();
        assert!(
            line.contains("1/1") && line.contains("Running"),
            "{operator}"
        );
    }
    let vpsa = cluster.run(&["demo", "vpsa"]);
    for part in ["vpsa-1", "vpsa-2", "vpsa-share", "vpsa-disk", "Bound"] {
        assert!(vpsa.contains(part), "{part}: {vpsa}");
    }
    let (_, read) = vpsa.rsplit_once("==> /data/dates <==\n").unwrap();
    assert_eq!(read.matches("UTC").count(), 2, "a share and a disk: {vpsa}");
}
