//! The last words of a process, where `kubectl describe pod` shows them.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use stowage_kubernetes::events::cut;

/// The kubelet reads no more of the file.
const LONGEST: usize = 4096;

/// Where the kubelet looks for the last words of a container.
#[derive(clap::Args, Clone, Debug)]
pub struct TerminationArgs {
    /// File for the reason of a failure; it is not created
    #[arg(
        long,
        hide = true,
        value_name = "FILE",
        default_value = "/dev/termination-log"
    )]
    pub termination_log: PathBuf,
}

impl TerminationArgs {
    /// Leaves `message`, if this is a container. Called twice: the last message counts.
    pub fn leave(&self, message: &str) {
        // Never created: outside of a container there is no reader.
        let file = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&self.termination_log);
        let Ok(mut file) = file else { return };
        let mut read = message.to_owned();
        cut(&mut read, LONGEST);
        if let Err(error) = file.write_all(read.as_bytes()) {
            let path = self.termination_log.display();
            tracing::warn!(%path, %error, "The termination message cannot be written.");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn log_in(folder: &tempfile::TempDir) -> TerminationArgs {
        TerminationArgs {
            termination_log: folder.path().join("termination-log"),
        }
    }

    #[test]
    fn the_last_words_replace_earlier_ones_and_fit() {
        let folder = tempfile::tempdir().unwrap();
        let log = log_in(&folder);
        fs::write(&log.termination_log, "an earlier, longer message").unwrap();
        log.leave("short");
        assert_eq!(fs::read_to_string(&log.termination_log).unwrap(), "short");

        log.leave(&format!("x{}", "ä".repeat(5000)));
        let kept = fs::read_to_string(&log.termination_log).unwrap();
        assert_eq!(kept, format!("x{}", "ä".repeat(LONGEST / 2 - 1)));
    }

    #[test]
    fn no_file_is_made_where_nobody_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = log_in(&folder);
        log.leave("words");
        assert!(!log.termination_log.exists());
    }
}
