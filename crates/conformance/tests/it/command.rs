use clap::Parser;
use stowage_conformance::{ConformanceArgs, Console, Verdict, run_on};
use stowage_csi::proto::csi::CreateVolumeRequest;
use stowage_memory_driver::Fault;

use crate::memory::{Served, Shape};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: ConformanceArgs,
}

/// What the command printed and came to.
#[derive(Debug)]
struct Ended {
    verdict: Verdict,
    out: String,
    err: String,
}

async fn command(words: &[&str]) -> Ended {
    let words = ["conformance"].iter().chain(words);
    let args = Command::try_parse_from(words)
        .expect("words that clap takes")
        .args;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let console = Console {
        out: &mut out,
        err: &mut err,
        colours: false,
    };
    let verdict = run_on(&args, console).await;
    Ended {
        verdict,
        out: String::from_utf8(out).expect("text"),
        err: String::from_utf8(err).expect("text"),
    }
}

/// Runs against a driver at `csi.sock`.
async fn against(served: &Served, words: &[&str]) -> Ended {
    let endpoint = served.endpoint("csi.sock").to_string();
    let (staging, target) = (served.path("staging"), served.path("target"));
    let fixed = [
        "--endpoint",
        &endpoint,
        "--staging-dir",
        &staging,
        "--target-dir",
        &target,
    ];
    command(&[&fixed, words].concat()).await
}

#[tokio::test]
async fn a_good_driver_ends_with_the_counts_and_zero() {
    let served = Served::start(None);
    let ended = against(&served, &[]).await;
    assert_eq!(ended.verdict, Verdict::Kept, "{ended:?}");
    assert!(
        ended
            .out
            .starts_with("Driver memory.csi.test v1: 95 cases\n"),
        "{}",
        ended.out
    );
    assert!(
        ended.out.contains("\n94 passed, 0 failed, 1 skipped in "),
        "{}",
        ended.out
    );
    assert_eq!(ended.err, "");
}

#[tokio::test]
async fn a_broken_driver_ends_with_one_and_files_that_say_why() {
    let served = Served::start(Some(Fault::Accepts("DeleteVolume")));
    let (junit, json) = (served.path("junit.xml"), served.path("report.json"));
    let words = [
        "--focus",
        "DeleteVolume:",
        "--junit",
        &junit,
        "--json",
        &json,
    ];
    let ended = against(&served, &words).await;
    assert_eq!(ended.verdict, Verdict::Broken, "{ended:?}");
    assert!(
        ended.out.contains("2 passed, 1 failed, 0 skipped"),
        "{}",
        ended.out
    );
    assert!(
        ended
            .out
            .contains("expected  INVALID_ARGUMENT\n             got       OK\n")
    );

    let junit = std::fs::read_to_string(junit).unwrap();
    assert!(junit.contains(r#"<failure message="DeleteVolume without a volume id: expected"#));
    let json = std::fs::read_to_string(json).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["failed"], 1);
    assert_eq!(json["cases"][0]["failures"][0]["came"], "OK");
}

#[tokio::test]
async fn the_list_needs_no_driver() {
    let ended = command(&["--list", "--focus", "GetSnapshot: finds"]).await;
    assert_eq!(ended.verdict, Verdict::Kept);
    assert_eq!(
        ended.out,
        "\
GetSnapshot: finds a snapshot
    needs the controller capability GET_SNAPSHOT
    needs the controller capability CREATE_DELETE_SNAPSHOT
    needs the controller capability CREATE_DELETE_VOLUME
"
    );
    let all = command(&["--list"]).await.out;
    let cases = all.lines().filter(|line| !line.starts_with(' ')).count();
    assert_eq!(cases, 95);
}

#[tokio::test]
async fn what_cannot_run_ends_with_two_and_one_sentence() {
    let served = Served::prepare(Shape::Full, None);
    let missing = served.path("missing.yaml");
    let list = served.path("list.yaml");
    std::fs::write(&list, "- a\n").unwrap();
    let unwritable = served.path("missing/report.json");
    for (words, complaint) in [
        (vec!["--ready-timeout", "200ms"], "nothing answers at"),
        (
            vec!["--focus", "Identidy"],
            "no case matches --focus `Identidy`",
        ),
        (
            vec!["--volume-parameters", &missing],
            "cannot read the file",
        ),
        (
            vec!["--snapshot-parameters", &list],
            "is not a map of texts",
        ),
        (vec!["--secrets", &list], "is not a map of maps of texts"),
        (vec!["--json", &unwritable], "cannot write the file"),
        (
            vec!["--node-endpoint", "tcp://node"],
            "is not a UNIX socket",
        ),
    ] {
        let ended = against(&served, &words).await;
        assert_eq!(ended.verdict, Verdict::Unknown, "{words:?}");
        assert_eq!(ended.out, "", "{words:?}");
        let lines: Vec<_> = ended.err.lines().collect();
        let error = match lines.as_slice() {
            [waiting, error] if waiting.starts_with("Waiting up to 200ms") => error,
            [error] => error,
            _ => panic!("{}", ended.err),
        };
        assert!(error.starts_with("error: "), "{error}");
        assert!(error.contains(complaint), "{error}");
    }
}

#[tokio::test]
async fn secrets_reach_the_driver_and_nobody_else() {
    let served = Served::start(Some(Fault::TellsSecrets));
    let secrets = served.path("secrets.yaml");
    let both = "CreateVolumeSecret: {password: hunter2}\nDeleteVolumeSecret: {password: hunter3}\n";
    std::fs::write(&secrets, both).unwrap();
    let (junit, json) = (served.path("junit.xml"), served.path("report.json"));
    let words = [
        "--secrets",
        &secrets,
        "--focus",
        "DeleteVolume:",
        "--junit",
        &junit,
        "--json",
        &json,
    ];
    let ended = against(&served, &words).await;
    let created = served.driver.last_request::<CreateVolumeRequest>();
    assert_eq!(created.unwrap().secrets["password"], "hunter2");
    assert!(
        ended.out.contains("INTERNAL: login [\"***\"]"),
        "{}",
        ended.out
    );
    for text in [
        ended.out,
        ended.err,
        std::fs::read_to_string(junit).unwrap(),
        std::fs::read_to_string(json).unwrap(),
    ] {
        assert!(!text.contains("hunter"), "{text}");
    }
}

#[test]
fn the_help_explains_every_option() {
    use clap::CommandFactory as _;

    let command = Command::command();
    for argument in command.get_arguments() {
        assert!(argument.get_help().is_some(), "{}", argument.get_id());
    }
}
