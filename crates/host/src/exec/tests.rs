use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;
use crate::blocking;

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

/// A child of the tool. It holds a pipe open for as long as it lives: the end of what it says is its death.
struct Helper {
    directory: TempDir,
    says: Option<BufReader<File>>,
}

impl Helper {
    fn new() -> Self {
        let helper = Self {
            directory: tempfile::tempdir().unwrap(),
            says: None,
        };
        for pipe in [helper.pipe("says"), helper.pipe("hears")] {
            mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }
        helper
    }

    fn pipe(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A tool that starts the helper, which does this, and then goes on like that. The helper keeps the tool's pipes too.
    fn script(&self, does: &str, then: &str) -> Invocation {
        let (says, hears) = (self.pipe("says"), self.pipe("hears"));
        let helper = format!("(echo up; {does}; echo outlived)");
        let pipes = format!("3>&1 <{} >{}", hears.display(), says.display());
        script(&format!("{helper} {pipes} & {then}"))
    }

    /// Waits until it runs, and then for what it listens to: what is written there, it reads.
    async fn is_up(&mut self) -> File {
        let (says, hears) = (self.pipe("says"), self.pipe("hears"));
        let (says, hears) = blocking(move || {
            // Open for both, no end waits for the other.
            let hears = File::options().read(true).write(true).open(hears).unwrap();
            let mut says = BufReader::new(File::open(says).unwrap());
            let mut line = String::new();
            says.read_line(&mut line).unwrap();
            assert_eq!(line, "up\n");
            (says, hears)
        })
        .await;
        self.says = Some(says);
        hears
    }

    /// What it says until it dies.
    async fn last_words(mut self) -> String {
        let mut says = self.says.take().unwrap();
        blocking(move || {
            let mut words = String::new();
            says.read_to_string(&mut words).unwrap();
            words
        })
        .await
    }
}

/// Long enough to be killed before, on any machine.
const WORKS: &str = "sleep 60";

/// With a clock that stands still while the test waits for the helper, and then goes on to the limit.
#[tokio::test(start_paused = true)]
async fn a_slow_tool_and_its_helpers_are_killed() {
    let mut helper = Helper::new();
    let limited = helper.script(WORKS, WORKS).timeout(Duration::from_secs(1));
    let call = tokio::spawn(run(limited));
    let _hears = helper.is_up().await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, ExecError::Timeout { .. }), "{error:?}");
    assert_eq!(helper.last_words().await, "", "a helper outlived its tool");
}

#[tokio::test]
async fn a_dropped_call_kills_the_tool_and_its_helpers() {
    let mut helper = Helper::new();
    let call = tokio::spawn(run(helper.script(WORKS, WORKS)));
    let _hears = helper.is_up().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(helper.last_words().await, "", "a helper outlived its call");
}

#[tokio::test]
async fn a_daemon_that_keeps_the_pipes_open_neither_blocks_nor_dies() {
    let mut daemon = Helper::new();
    let call = tokio::spawn(run(daemon.script("read until_then", "echo started")));
    let mut hears = daemon.is_up().await;
    let output = call.await.unwrap().unwrap();
    assert_eq!(output.stdout, b"started\n");
    hears.write_all(b"end\n").unwrap();
    let words = daemon.last_words().await;
    assert_eq!(
        words, "outlived\n",
        "the daemon was killed with its starter"
    );
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
