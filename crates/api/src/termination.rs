//! The last words of a container, where `kubectl describe pod` shows them and the operator reads them.
//!
//! A sentence for people, and where a program can make use of the cause, one more line of JSON with a schema. The writer
//! and the reader may be of different versions: a reader ignores a schema or a cause that it does not know, and never
//! looks for anything in the sentence.
//!
//! ```text
//! --driver-name is `a`, but the driver at `/csi/csi.sock` reports the name `b`: nothing was done. ...
//! {"schema":"stowage.dev/termination/v1","cause":"DriverNameMismatch","expected":"a","reported":"b"}
//! ```

use serde::{Deserialize, Serialize};

/// The kubelet reads no more of a termination message.
const LONGEST: usize = 4096;
/// What all schemas begin with.
const SCHEMAS: &str = "stowage.dev/termination/";
/// The schema of [`Cause`]. New causes and new fields do not change it.
const SCHEMA: &str = "stowage.dev/termination/v1";

/// Why a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Termination {
    /// For people.
    pub sentence: String,
    /// For programs, where it is one of those that they know.
    pub cause: Option<Cause>,
}

/// A cause that another program acts on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause")]
pub enum Cause {
    /// The driver behind the socket is another one than the sidecar was told to expect.
    DriverNameMismatch {
        /// The name that was expected.
        expected: String,
        /// The name that the driver reports.
        reported: String,
    },
}

/// The line for programs.
#[derive(Serialize, Deserialize)]
struct Record {
    schema: String,
    #[serde(flatten)]
    cause: Cause,
}

/// The line of any schema.
#[derive(Deserialize)]
struct AnyRecord {
    schema: String,
}

impl Termination {
    /// Reads a message, whoever wrote it.
    pub fn read(message: &str) -> Self {
        let (records, sentence): (Vec<_>, Vec<_>) = message.lines().partition(|it| is_record(it));
        Self {
            sentence: sentence.join("\n").trim().to_owned(),
            cause: records.into_iter().rev().find_map(read_cause),
        }
    }

    /// As it is written. A sentence that is too long is cut, the line for programs is not.
    pub fn to_message(&self) -> String {
        let record = self.cause.as_ref().map(record).unwrap_or_default();
        let mut end = self
            .sentence
            .len()
            .min(LONGEST.saturating_sub(record.len()));
        while !self.sentence.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}{record}", &self.sentence[..end])
    }
}

fn is_record(line: &str) -> bool {
    let record = serde_json::from_str::<AnyRecord>(line);
    record.is_ok_and(|record| record.schema.starts_with(SCHEMAS))
}

fn read_cause(line: &str) -> Option<Cause> {
    let record: Record = serde_json::from_str(line).ok()?;
    (record.schema == SCHEMA).then_some(record.cause)
}

fn record(cause: &Cause) -> String {
    let record = Record {
        schema: SCHEMA.to_owned(),
        cause: cause.clone(),
    };
    // Texts under fixed names cannot fail to become JSON.
    let line = serde_json::to_string(&record).unwrap_or_default();
    format!("\n{line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mismatch() -> Cause {
        Cause::DriverNameMismatch {
            expected: "a.example".to_owned(),
            reported: "b \"quoted\"".to_owned(),
        }
    }

    fn with(sentence: &str, cause: Option<Cause>) -> Termination {
        Termination {
            sentence: sentence.to_owned(),
            cause,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for termination in [
            with("nothing was done", Some(mismatch())),
            with("", Some(mismatch())),
            with("two\nlines", Some(mismatch())),
            with("only for people", None),
            Termination::default(),
        ] {
            let message = termination.to_message();
            assert_eq!(Termination::read(&message), termination, "{message}");
        }
    }

    /// Processes of other versions read and write this line: it must stay as it is.
    #[test]
    fn the_line_is_an_interface() {
        let cause = Cause::DriverNameMismatch {
            expected: "a".to_owned(),
            reported: "b".to_owned(),
        };
        assert_eq!(
            with("Words.", Some(cause)).to_message(),
            "Words.\n{\"schema\":\"stowage.dev/termination/v1\",\"cause\":\"DriverNameMismatch\",\"expected\":\"a\",\
             \"reported\":\"b\"}"
        );
    }

    #[test]
    fn a_long_sentence_is_cut_and_the_line_is_kept() {
        let message = with(&format!("x{}", "ä".repeat(5000)), Some(mismatch())).to_message();
        assert!(
            (LONGEST - 1..=LONGEST).contains(&message.len()),
            "{}",
            message.len()
        );
        assert_eq!(Termination::read(&message).cause, Some(mismatch()));
        assert_eq!(with(&"x".repeat(5000), None).to_message().len(), LONGEST);
    }

    #[test]
    fn what_another_version_says_is_ignored_and_not_shown() {
        for line in [
            r#"{"schema":"stowage.dev/termination/v2","cause":"DriverNameMismatch","expected":"a","reported":"b"}"#,
            r#"{"schema":"stowage.dev/termination/v1","cause":"SomethingNew","of":1}"#,
            r#"{"schema":"stowage.dev/termination/v1","cause":"DriverNameMismatch","expected":"a"}"#,
            r#"{"schema":"stowage.dev/termination/v1"}"#,
        ] {
            let read = Termination::read(&format!("Words.\n{line}"));
            assert_eq!(read, with("Words.", None), "{line}");
        }
        let newer = r#"{"schema":"stowage.dev/termination/v1","cause":"DriverNameMismatch","expected":"a.example",
            "reported":"b \"quoted\"","since":"v9"}"#;
        let newer = newer.replace('\n', "");
        assert_eq!(Termination::read(&newer).cause, Some(mismatch()));
    }

    #[test]
    fn other_messages_are_sentences_whatever_they_look_like() {
        for message in [
            "--driver-name is `a`, but the driver at `/csi/csi.sock` says that it is `b`",
            r#"{"level":"ERROR","message":"a line of a log"}"#,
            "{\"schema\": 1}",
            "{",
        ] {
            assert_eq!(Termination::read(message), with(message, None));
        }
    }
}
