//! A real child process: signals, exit codes, what it logs, what it answers over HTTP.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![allow(clippy::unwrap_used, reason = "a test may")]

mod child;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio, exit};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use clap::Parser as _;
use devcluster::testing::eventually;
use rustix::process::{Pid, Signal, kill_process};

/// Where a child finds its arguments, one per line.
const ARGUMENTS: &str = "STOWAGE_TEST_CHILD_ARGUMENTS";
const PATIENCE: Duration = Duration::from_secs(10);

/// Not a test but what the tests start: this very program, so that it is never older than the code.
#[test]
#[ignore = "started by the other tests of this file, as a child process"]
fn child_process() {
    if let Ok(arguments) = env::var(ARGUMENTS) {
        exit(child::run(child::Args::parse_from(
            ["child"].into_iter().chain(arguments.lines()),
        )));
    }
}

/// A run of `child.rs`, killed when the test is over.
struct Idle {
    child: Child,
    lines: Receiver<String>,
}

impl Idle {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "process::child_process"])
            .args(["--ignored", "--nocapture"])
            .env(ARGUMENTS, arguments.join("\n"))
            .env_remove("STOWAGE_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || {
            stderr
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// Waits until a line with this text is logged.
    fn logs(&self, text: &str) -> String {
        let mut lines = self.lines_until(text);
        lines.pop().unwrap()
    }

    /// What is logged from here on, to the line with this text.
    fn lines_until(&self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self
            .lines
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            lines.push(line);
            if lines.last().unwrap().contains(text) {
                return lines;
            }
        }
        panic!("`{text}` is not logged")
    }

    /// Whether it logs what is only for debugging, seen over some beats of its heart: each logs a line of either kind.
    fn is_talkative(&self) -> bool {
        // The beat that was under way may have begun at another level.
        self.logs("One beat.");
        let beats = (0..5).flat_map(|_| self.lines_until("One beat."));
        let said = beats.filter(|line| line.contains("Still idle.")).count();
        assert!(said == 0 || said == 5, "{said} of 5");
        said > 0
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until a signal that was sent has been handled.
    fn has_handled(&self, signal: Signal) {
        let status = |field: &str| {
            let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
            let value = status.lines().find_map(|line| line.strip_prefix(field));
            value.unwrap().trim().to_owned()
        };
        eventually("the signal is handled", || {
            let pending = u64::from_str_radix(&status("ShdPnd:"), 16).unwrap();
            // The thread that takes a signal runs until its handler has ended.
            pending & (1 << (signal.as_raw() - 1)) == 0 && status("State:").starts_with('S')
        });
    }

    fn exit_code(&mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or_else(|| panic!("{status}"));
            }
            assert!(Instant::now() < deadline, "the process does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port that a log line names as `127.0.0.1:PORT`.
fn port(line: &str) -> u16 {
    let digits: String = line
        .rsplit_once("127.0.0.1:")
        .unwrap()
        .1
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap()
}

fn http(port: u16, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_first_signal_ends_the_process_in_order() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let mut idle = Idle::start(&[]);
        idle.logs("Idle.");
        idle.signal(signal);
        idle.logs(name);
        assert_eq!(idle.exit_code(), 0);
    }
}

#[test]
fn the_second_signal_ends_the_process_at_once() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut idle = Idle::start(&["--ignore-stop", "--grace-period=1m"]);
        idle.logs("Idle.");
        idle.signal(signal);
        idle.logs("Stopping");
        idle.signal(signal);
        assert_eq!(idle.exit_code(), code);
    }
}

#[test]
fn the_second_signal_ends_even_a_process_whose_runtime_is_blocked() {
    let mut idle = Idle::start(&["--block"]);
    idle.logs("Idle.");
    idle.signal(Signal::INT);
    // Of signals that arrive together, the kernel chooses which is the first.
    idle.has_handled(Signal::INT);
    idle.signal(Signal::TERM);
    assert_eq!(idle.exit_code(), 143);
}

#[test]
fn what_does_not_finish_within_the_grace_period_is_named() {
    let mut idle = Idle::start(&[
        "--stuck-task=poller",
        "--stuck-task=watcher",
        "--ignore-stop",
        "--grace-period=300ms",
    ]);
    idle.logs("Idle.");
    idle.signal(Signal::TERM);
    idle.logs("not finished within 0.3 s after the request to stop: work, poller, watcher");
    assert_eq!(idle.exit_code(), 1);
}

#[test]
fn a_panic_in_a_task_ends_the_process_and_is_named() {
    let mut idle = Idle::start(&["--panicking-task=poller"]);
    idle.logs("the task `poller` panicked");
    assert_eq!(idle.exit_code(), 1);
}

#[test]
fn work_that_fails_ends_the_process_with_its_error() {
    let mut idle = Idle::start(&[
        "--fail=the driver is gone",
        "--stuck-task=poller",
        "--grace-period=100ms",
    ]);
    idle.logs(r#"unfinished=["poller"]"#);
    idle.logs("the driver is gone");
    assert_eq!(idle.exit_code(), 1);
}

#[test]
fn the_process_answers_until_its_end_but_is_not_ready_while_it_stops() {
    let idle = Idle::start(&["--ignore-stop", "--grace-period=1m"]);
    let port = port(&idle.logs("The HTTP port is open"));
    idle.logs("Idle.");
    assert!(http(port, "GET", "/readyz", "").starts_with("HTTP/1.1 200"));
    idle.signal(Signal::TERM);
    idle.logs("Stopping");
    assert!(http(port, "GET", "/healthz", "").starts_with("HTTP/1.1 200"));
    let answer = http(port, "GET", "/readyz", "");
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("[-] process: stopping"),
        "{answer}"
    );
}

#[test]
fn a_taken_port_stops_the_start_with_a_sentence() {
    let first = Idle::start(&[]);
    let port = port(&first.logs("The HTTP port is open"));
    let mut second = Idle::start(&[&format!("--http-endpoint=127.0.0.1:{port}")]);
    second
        .logs("is already in use by another process: choose another address with --http-endpoint");
    assert_eq!(second.exit_code(), 2);
}

#[test]
fn the_log_level_changes_while_the_process_runs() {
    let idle = Idle::start(&[]);
    let port = port(&idle.logs("The HTTP port is open"));
    idle.logs("Idle.");
    assert!(!idle.is_talkative());
    assert!(http(port, "PUT", "/loglevel", "it::process=debug").starts_with("HTTP/1.1 200"));
    assert!(idle.is_talkative());
    assert!(http(port, "PUT", "/loglevel", "info").starts_with("HTTP/1.1 200"));
    idle.logs("The log level was changed.");
    assert!(!idle.is_talkative());
}

#[test]
fn json_lines_are_objects_with_the_fields_on_top_and_nothing_goes_to_stdout() {
    let mut idle = Idle::start(&["--log-format=json"]);
    let line: serde_json::Value =
        serde_json::from_str(&idle.logs("The HTTP port is open")).unwrap();
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["message"], "The HTTP port is open.");
    assert!(
        line["address"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{line}"
    );
    idle.logs("Idle.");
    idle.signal(Signal::TERM);
    assert_eq!(idle.exit_code(), 0);
    let mut output = String::new();
    idle.child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    // The test harness writes there; we do not.
    assert!(!output.contains("Idle."), "{output}");
}
