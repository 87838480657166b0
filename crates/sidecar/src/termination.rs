//! The last words of a process, where `kubectl describe pod` shows them.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use stowage_api::causes::chain;
use stowage_api::termination::{Cause, Termination};
use stowage_service::RunError;

use crate::controller::ControllerError;
use crate::node::NodeError;

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
    /// Leaves the reason why the process ends, if this is a container. Called twice: the last one counts.
    pub fn leave(&self, error: &(dyn Error + 'static)) {
        let termination = Termination {
            sentence: chain(error),
            cause: cause_of(error),
        };
        self.write(&termination.to_message());
    }

    fn write(&self, message: &str) {
        // Never created: outside of a container there is no reader.
        let file = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&self.termination_log);
        let Ok(mut file) = file else { return };
        if let Err(error) = file.write_all(message.as_bytes()) {
            let path = self.termination_log.display();
            tracing::warn!(%path, %error, "The termination message cannot be written.");
        }
    }
}

/// What the operator can make use of, below the service that ran the work.
fn cause_of(error: &(dyn Error + 'static)) -> Option<Cause> {
    let RunError::Work(work) = error.downcast_ref()? else {
        return None;
    };
    let of_controller = |error: &ControllerError| match error {
        ControllerError::Driver(error) => error.cause(),
        _ => None,
    };
    if let Some(error) = work.downcast_ref() {
        return of_controller(error);
    }
    match work.downcast_ref()? {
        NodeError::Driver(error) => error.cause(),
        NodeError::Controller(error) => of_controller(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::driver::DriverError;

    fn log_in(folder: &tempfile::TempDir) -> TerminationArgs {
        TerminationArgs {
            termination_log: folder.path().join("termination-log"),
        }
    }

    fn other_driver() -> DriverError {
        DriverError::Unexpected {
            endpoint: "/csi/csi.sock".parse().unwrap(),
            expected: "a.example".parse().unwrap(),
            found: "b.example".parse().unwrap(),
        }
    }

    fn left(error: &(dyn Error + 'static)) -> Termination {
        let folder = tempfile::tempdir().unwrap();
        let log = log_in(&folder);
        fs::write(&log.termination_log, "earlier words ".repeat(100)).unwrap();
        log.leave(error);
        Termination::read(&fs::read_to_string(&log.termination_log).unwrap())
    }

    #[test]
    fn the_last_words_replace_earlier_ones() {
        let left = left(&RunError::Panicked("journal".to_owned()));
        assert_eq!(left.sentence, "the task `journal` panicked");
        assert_eq!(left.cause, None);
    }

    #[test]
    fn another_driver_is_named_for_programs_whichever_role_met_it() {
        let controller = || ControllerError::from(other_driver());
        let works: [Box<dyn Error + Send + Sync>; 3] = [
            controller().into(),
            NodeError::from(other_driver()).into(),
            NodeError::from(controller()).into(),
        ];
        for work in works {
            let left = left(&RunError::Work(work));
            let cause = Cause::DriverNameMismatch {
                expected: "a.example".to_owned(),
                reported: "b.example".to_owned(),
            };
            assert_eq!(left.cause, Some(cause));
            assert_eq!(left.sentence, other_driver().to_string());
        }
    }

    #[test]
    fn no_file_is_made_where_nobody_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = log_in(&folder);
        log.leave(&other_driver());
        assert!(!log.termination_log.exists());
    }
}
