//! Commands that end, and daemons that do not.

mod daemon;
mod namespaces;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub use self::daemon::{Daemon, processes_below};
pub use self::namespaces::Namespaces;
use crate::error::{Doing, Error, Result};

/// Runs a command to its end and returns what it printed on standard output.
pub fn capture(command: &mut Command) -> Result<String> {
    capture_with_stdin(command.stdin(Stdio::null()))
}

/// Like [`capture`], for a command whose standard input the caller has set.
pub fn capture_with_stdin(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command.output().doing(|| format!("cannot run `{shown}`"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(ended_badly(shown, output.status, said))
}

/// Runs a command with `input` on its standard input.
pub fn feed(command: &mut Command, input: &(impl AsRef<[u8]> + ?Sized)) -> Result<String> {
    let shown = show(command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .doing(|| format!("cannot run `{shown}`"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read to the end says why in its own output.
        let _ = stdin.write_all(input.as_ref());
    }
    let output = child
        .wait_with_output()
        .doing(|| format!("cannot wait for `{shown}`"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(ended_badly(shown, output.status, said))
}

/// Runs a command whose output goes to `log`, line by line; each line is also shown to `on_line`.
pub fn logged(command: &mut Command, log: &Path, mut on_line: impl FnMut(&str)) -> Result<()> {
    let shown = show(command);
    let mut file = append(log)?;
    let (reader, writer) = std::io::pipe().doing(|| "cannot make a pipe".to_owned())?;
    let both = writer
        .try_clone()
        .doing(|| "cannot copy a pipe".to_owned())?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(both)
        .spawn()
        .doing(|| format!("cannot run `{shown}`"))?;
    // The command keeps its ends of the pipe: ours must go, or the loop below never ends.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let _ = writeln!(file, "$ {shown}");
    let mut told = Told::default();
    for line in BufReader::new(reader).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line);
        let _ = writeln!(file, "{line}");
        on_line(&line);
        told.hear(&line);
    }
    let status = child
        .wait()
        .doing(|| format!("cannot wait for `{shown}`"))?;
    if status.success() {
        Ok(())
    } else {
        Err(ended_badly(shown, status, told.text()))
    }
}

/// Of what a command prints, what its end is explained with: the cause comes first, and the last line often only says that it failed.
#[derive(Default)]
struct Told {
    errors: Vec<String>,
    last: String,
}

impl Told {
    const ERRORS: usize = 2;
    /// A linker's whole command is one line.
    const WIDTH: usize = 300;

    fn hear(&mut self, line: &str) {
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        self.last = line.chars().take(Self::WIDTH).collect();
        let is_error = line.contains("error:") || line.starts_with("error[");
        if is_error && self.errors.len() < Self::ERRORS && !self.errors.contains(&self.last) {
            self.errors.push(self.last.clone());
        }
    }

    fn text(mut self) -> String {
        if !self.errors.contains(&self.last) {
            self.errors.push(self.last);
        }
        self.errors.join("\n")
    }
}

/// Opens a log for appending, making its directory.
pub fn append(log: &Path) -> Result<File> {
    if let Some(parent) = log.parent() {
        fs::create_dir_all(parent)
            .doing(|| format!("cannot make directory `{}`", parent.display()))?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .doing(|| format!("cannot open log `{}`", log.display()))
}

/// Polls `condition` until it holds. For what cannot be watched: a process, a socket, a cgroup.
pub fn wait_until(
    what: &str,
    limit: Duration,
    log: &Path,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(50);
    while !condition()? {
        if started.elapsed() > limit {
            return Err(Error::Timeout {
                what: what.to_owned(),
                after: limit,
                log: log.to_owned(),
            });
        }
        thread::sleep(pause);
        // Many looks are processes: what is waited for needs the machine more.
        pause = (pause * 5 / 4).min(Duration::from_millis(500));
    }
    Ok(())
}

fn show(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

fn ended_badly(command: String, status: ExitStatus, output: String) -> Error {
    Error::Command {
        command,
        outcome: match status.code() {
            Some(code) => format!("ended with code {code}"),
            None => "was killed".to_owned(),
        },
        output,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_explained_by_its_first_errors() {
        let log = std::env::temp_dir().join(format!("stowage-told-{}.log", std::process::id()));
        let script = "echo Compiling a; echo 'error: linking failed'; echo \"note: $(printf %05000d 0)\"; \
                      echo 'collect2: fatal error: ld terminated with signal 7'; echo 'error: could not compile'; exit 101";
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let told = logged(&mut command, &log, |_| {}).unwrap_err().to_string();
        fs::remove_file(&log).unwrap();
        let why = "error: linking failed | collect2: fatal error: ld terminated with signal 7 | error: could not compile";
        assert!(told.ends_with(why), "{told}");
    }
}
