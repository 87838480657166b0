use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: ConformanceArgs,
}

fn parsed(words: &[&str]) -> Result<Options, OptionsError> {
    let words = ["conformance"].iter().chain(words);
    let command = Command::try_parse_from(words).expect("words that clap takes");
    Options::try_from(&command.args)
}

fn complaint(words: &[&str]) -> String {
    parsed(words).unwrap_err().to_string()
}

#[test]
fn one_endpoint_serves_both_sides() {
    let options = parsed(&["--endpoint", "unix:///run/csi.sock"]).unwrap();
    assert_eq!(options.controller_endpoint, options.node_endpoint);
    assert_eq!(
        options.controller_endpoint.path(),
        Path::new("/run/csi.sock")
    );
    assert_eq!(options.volume_size, 10 << 30);
    assert_eq!(options.expand_size, 11 << 30);
    assert_eq!(options.repeat, 10);
    assert_eq!(options.jobs.get(), 1);
}

#[test]
fn a_special_endpoint_wins() {
    let options = parsed(&["--endpoint", "/a.sock", "--node-endpoint", "/b.sock"]).unwrap();
    assert_eq!(options.controller_endpoint.path(), Path::new("/a.sock"));
    assert_eq!(options.node_endpoint.path(), Path::new("/b.sock"));
}

#[test]
fn a_missing_or_wrong_endpoint_is_explained() {
    assert_eq!(
        complaint(&["--controller-endpoint", "/a.sock"]),
        "no endpoint for the node service: add --endpoint unix:///path/to/csi.sock"
    );
    let wrong = complaint(&["--endpoint", "tcp://localhost:1"]);
    assert!(wrong.contains("is not a UNIX socket"), "{wrong}");
    assert!(wrong.ends_with("; write --endpoint unix:///path/to/csi.sock"));
}

#[test]
fn volumes_can_only_grow() {
    let words = [
        "--endpoint",
        "/a.sock",
        "--volume-size",
        "2Gi",
        "--expand-size",
        "2Gi",
    ];
    assert!(complaint(&words).starts_with("--expand-size is 2147483648 bytes"));
}

#[test]
fn a_prefix_must_be_usable_in_names() {
    let long = "x".repeat(65);
    for prefix in ["", "a b", "a/b", "ä", long.as_str()] {
        let text = complaint(&["--endpoint", "/a.sock", "--name-prefix", prefix]);
        assert!(
            text.starts_with(&format!("--name-prefix `{prefix}` is not valid")),
            "{text}"
        );
    }
    parsed(&["--endpoint", "/a.sock", "--name-prefix", "team-a_1.x"]).unwrap();
}

#[test]
fn directories_must_be_there_unless_a_command_makes_them() {
    let missing = ["--endpoint", "/a.sock", "--target-dir", "/missing/dir"];
    let text = complaint(&missing);
    assert!(
        text.starts_with("`/missing/dir` for --target-dir is not a directory"),
        "{text}"
    );
    assert!(
        text.ends_with("create it, or leave --target-dir out"),
        "{text}"
    );

    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let text = complaint(&["--endpoint", "/a.sock", "--staging-dir", path]);
    assert!(
        text.contains("for --staging-dir is not a directory"),
        "{text}"
    );

    let with_command = [&missing[..], &["--create-target-command", "/bin/make"]].concat();
    assert_eq!(
        parsed(&with_command).unwrap().places.target_dir,
        Path::new("/missing/dir")
    );
}

#[test]
fn sizes_and_times_are_checked_where_they_are_typed() {
    for words in [
        ["--volume-size", "10GB"],
        ["--expand-size", "0"],
        ["--timeout", "30"],
        ["--ready-timeout", "soon"],
        ["--repeat", "0"],
        ["--jobs", "0"],
        ["--access-type", "nfs"],
    ] {
        let words = ["conformance", "--endpoint", "/a.sock"]
            .iter()
            .chain(&words);
        assert!(Command::try_parse_from(words).is_err());
    }
}
