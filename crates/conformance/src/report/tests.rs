use super::*;

fn case(group: &'static str, name: &'static str, outcome: Outcome) -> CaseReport {
    CaseReport {
        group,
        name,
        seconds: 0.25,
        outcome,
    }
}

fn report() -> Report {
    let failure = Failure::new("CreateVolume without a name", "INVALID_ARGUMENT", "OK");
    let left = Failure::new("DeleteVolume", "OK", "INTERNAL: <\"disk\" & co>\n\u{1}");
    Report {
        driver: DriverReport {
            name: "test.csi".to_owned(),
            version: "v1".to_owned(),
        },
        seconds: 1.5,
        interrupted: false,
        cases: vec![
            case("Identity", "Probe answers OK", Outcome::Passed),
            case(
                "CreateVolume",
                "refuses a request without a name",
                Outcome::Failed {
                    failures: vec![failure, left],
                },
            ),
            case(
                "CreateVolume",
                "makes a volume from a volume",
                Outcome::Skipped {
                    reason: "the driver lacks the controller capability CLONE_VOLUME".to_owned(),
                },
            ),
        ],
    }
}

fn on_terminal(report: &Report, colours: bool) -> String {
    let mut text = Vec::new();
    let mut terminal = Terminal::new(&mut text, colours);
    terminal.start(&report.driver, report.cases.len()).unwrap();
    for case in &report.cases {
        terminal.case(case).unwrap();
    }
    terminal.finish(report).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_person_reads_what_was_expected_and_what_came() {
    let mut report = report();
    report.cases[1]
        .outcome
        .rewrite(|text| text.replace(['\n', '\u{1}'], ""));
    assert_eq!(
        on_terminal(&report, false),
        "\
Driver test.csi v1: 3 cases

Identity
  passed   Probe answers OK

CreateVolume
  FAILED   refuses a request without a name
           CreateVolume without a name
             expected  INVALID_ARGUMENT
             got       OK
           DeleteVolume
             expected  OK
             got       INTERNAL: <\"disk\" & co>
  skipped  makes a volume from a volume (the driver lacks the controller capability CLONE_VOLUME)

Failed
  FAILED   CreateVolume: refuses a request without a name

1 passed, 1 failed, 1 skipped in 1.5 s
"
    );
}

#[test]
fn colours_are_for_terminals_only() {
    assert!(!on_terminal(&report(), false).contains("\u{1b}["));
    let text = on_terminal(&report(), true);
    assert!(
        text.contains("\u{1b}[31mFAILED \u{1b}[0m  refuses"),
        "{text}"
    );
    assert!(text.contains("\u{1b}[31m1 passed, 1 failed, 1 skipped\u{1b}[0m"));
}

#[test]
fn success_means_nothing_failed_and_nobody_interrupted() {
    let mut report = report();
    assert!(!report.is_success());
    report.cases.remove(1);
    assert!(report.is_success());
    report.interrupted = true;
    assert!(!report.is_success());
    assert!(on_terminal(&report, false).contains("Interrupted before the end."));
}

#[test]
fn junit_has_a_suite_per_group_and_no_unsafe_character() {
    assert_eq!(
        junit(&report()),
        r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="conformance test.csi" tests="3" failures="1" skipped="1" time="1.500">
  <testsuite name="Identity" tests="1" failures="0" errors="0" skipped="0" time="0.250">
    <testcase classname="Identity" name="Probe answers OK" time="0.250"/>
  </testsuite>
  <testsuite name="CreateVolume" tests="2" failures="1" errors="0" skipped="1" time="0.500">
    <testcase classname="CreateVolume" name="refuses a request without a name" time="0.250">
      <failure message="CreateVolume without a name: expected INVALID_ARGUMENT, got OK"/>
      <failure message="DeleteVolume: expected OK, got INTERNAL: &lt;&quot;disk&quot; &amp; co&gt;&#10;?"/>
    </testcase>
    <testcase classname="CreateVolume" name="makes a volume from a volume" time="0.250">
      <skipped message="the driver lacks the controller capability CLONE_VOLUME"/>
    </testcase>
  </testsuite>
</testsuites>
"#
    );
}

#[test]
fn json_has_the_counts_and_every_case() {
    let text = report().json().unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["passed"], 1);
    assert_eq!(json["failed"], 1);
    assert_eq!(json["skipped"], 1);
    assert_eq!(json["driver"]["name"], "test.csi");
    assert_eq!(json["cases"][0]["outcome"], "passed");
    assert_eq!(json["cases"][1]["group"], "CreateVolume");
    assert_eq!(json["cases"][1]["outcome"], "failed");
    assert_eq!(
        json["cases"][1]["failures"][0]["expected"],
        "INVALID_ARGUMENT"
    );
    assert_eq!(
        json["cases"][2]["reason"],
        "the driver lacks the controller capability CLONE_VOLUME"
    );
}

#[test]
fn a_name_cannot_steer_the_terminal() {
    let info = GetPluginInfoResponse {
        name: "a\u{1b}[2J".to_owned(),
        ..Default::default()
    };
    assert_eq!(DriverReport::of(Some(&info)).name, "a[2J");
    let nameless = Report::default();
    assert!(on_terminal(&nameless, false).starts_with("Driver a driver without a name"));
}
