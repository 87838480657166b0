use std::time::{Duration, Instant};

use super::*;

const SH: Tool = Tool {
    name: "sh",
    package: "dash",
};

fn script(text: &str) -> Invocation {
    Invocation::new(SH).args(["-c", text])
}

async fn run(invocation: Invocation) -> Result<Output, ExecError> {
    HostExec.run(invocation).await
}

#[tokio::test]
async fn captures_both_outputs_and_the_exit_code() {
    let output = run(script("echo out; echo err >&2; exit 3")).await.unwrap();
    assert_eq!(output.exit, Exit::Code(3));
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
    assert!(!output.truncated);
    let error = output.checked().unwrap_err();
    assert_eq!(
        error.to_string(),
        "host tool `sh` ended with exit code 3: err"
    );
}

#[tokio::test]
async fn a_tool_ended_by_a_signal_says_which() {
    let output = run(script("kill -TERM $$")).await.unwrap();
    assert_eq!(output.exit, Exit::Signal(15));
    assert_eq!(output.code(), None);
}

#[tokio::test]
async fn a_missing_tool_names_its_package() {
    let tool = Tool {
        name: "stowage-no-such-tool",
        package: "some-package",
    };
    let error = run(Invocation::new(tool)).await.unwrap_err();
    assert!(matches!(error, ExecError::ToolMissing { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "host tool `stowage-no-such-tool` is missing: install Debian package `some-package`"
    );
}

#[tokio::test]
async fn secrets_travel_by_stdin_and_environment_and_are_not_printed() {
    let invocation = script("cat; printf %s \"$TOKEN\"; env -0 >/dev/null")
        .stdin("hush-1")
        .env("TOKEN", "hush-2");
    let printed = format!("{invocation:?}");
    assert!(!printed.contains("hush"), "{printed}");
    assert!(printed.contains("TOKEN"), "{printed}");
    assert_eq!(run(invocation).await.unwrap().stdout, b"hush-1hush-2");
}

#[tokio::test]
async fn a_tool_that_does_not_read_its_input_is_no_error() {
    let output = run(Invocation::new(Tool {
        name: "true",
        package: "coreutils",
    })
    .stdin(vec![0; 1 << 20]))
    .await;
    assert_eq!(output.unwrap().exit, Exit::Code(0));
}

#[tokio::test]
async fn output_beyond_the_limit_is_dropped_without_stopping_the_tool() {
    let output = run(script("head -c 3000000 /dev/zero; echo done >&2").output_limit(1000))
        .await
        .unwrap();
    assert_eq!(output.stdout.len(), 1000);
    assert_eq!(output.stderr, b"done\n");
    assert!(output.truncated);
}

#[tokio::test]
async fn a_slow_tool_and_its_helpers_are_killed() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    // The helper is a child of the tool and would write the mark after the tool was killed.
    let text = format!("(sleep 2; touch {}) & sleep 30", mark.display());
    let begun = Instant::now();
    let error = run(script(&text).timeout(Duration::from_millis(200)))
        .await
        .unwrap_err();
    assert!(matches!(error, ExecError::Timeout { .. }), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(2));
    tokio::time::sleep(Duration::from_millis(2300)).await;
    assert!(!mark.exists(), "a helper outlived its tool");
}

#[tokio::test]
async fn a_dropped_call_kills_the_tool_and_its_helpers() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let text = format!("(sleep 2; touch {}) & sleep 30", mark.display());
    let call = HostExec.run(script(&text));
    assert!(
        tokio::time::timeout(Duration::from_millis(200), call)
            .await
            .is_err()
    );
    tokio::time::sleep(Duration::from_millis(2300)).await;
    assert!(!mark.exists(), "a helper outlived its call");
}

#[tokio::test]
async fn a_daemon_that_keeps_the_pipes_open_neither_blocks_nor_dies() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let text = format!("echo started; (sleep 3; touch {}) &", mark.display());
    let begun = Instant::now();
    let output = run(script(&text)).await.unwrap();
    assert_eq!(output.stdout, b"started\n");
    assert!(
        begun.elapsed() < Duration::from_millis(2500),
        "{:?}",
        begun.elapsed()
    );
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert!(mark.exists(), "the daemon was killed with its starter");
}

#[tokio::test]
async fn tools_in_sbin_are_found_and_speak_english() {
    let output = run(script("echo $LC_ALL; command -v blkid"))
        .await
        .unwrap()
        .checked()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("C\n") && said.contains("blkid"), "{said}");
}

#[test]
fn long_complaints_keep_their_end() {
    let mut output = Output::exited(SH, 1);
    output.stderr = format!("{}\n\nthe reason\n", "x".repeat(5000)).into_bytes();
    let error = output.checked().unwrap_err().to_string();
    assert!(
        error.ends_with("; the reason") && error.len() < 700,
        "{error}"
    );
}

#[tokio::test]
async fn the_fake_answers_and_remembers() {
    let exec = FakeExec::new().with(tools::MKFS_EXT4);
    exec.run(
        Invocation::new(tools::MKFS_EXT4)
            .arg("-F")
            .arg("/dev/x")
            .stdin("s"),
    )
    .await
    .unwrap();
    let missing = exec.run(Invocation::new(tools::BLKID)).await.unwrap_err();
    assert!(matches!(
        missing,
        ExecError::ToolMissing {
            tool: "blkid",
            package: "util-linux"
        }
    ));
    assert_eq!(exec.calls(), ["mkfs.ext4 -F /dev/x", "blkid"]);
    assert_eq!(exec.stdin_of(0).unwrap(), b"s");
}
