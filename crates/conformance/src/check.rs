//! What a case expects, and what is reported otherwise.

use std::fmt::Display;

use serde::Serialize;
use tonic::{Code, Response, Status};

/// What a case, or a step of one, comes to.
pub(crate) type Checked<T = ()> = Result<T, Stop>;

/// Why a case ends before its last line.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The driver breaks a promise.
    Failed(Failure),
    /// The driver does not promise this; the reason is a sentence without its full stop.
    Skipped(String),
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The call or the value that was looked at.
    pub check: String,
    /// What it should have been.
    pub expected: String,
    /// What it was.
    #[serde(rename = "came")]
    pub got: String,
}

impl Failure {
    pub(crate) fn new(
        check: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        Self {
            check: check.into(),
            expected: expected.into(),
            got: got.into(),
        }
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Fails with `expected` and `got` unless it holds.
pub(crate) fn ensure(
    holds: bool,
    check: impl Into<String>,
    expected: impl Into<String>,
    got: impl Into<String>,
) -> Checked {
    if holds {
        Ok(())
    } else {
        Err(Failure::new(check, expected, got).into())
    }
}

/// Fails unless both are the same.
pub(crate) fn same<T: PartialEq + Display + ?Sized>(
    check: impl Into<String>,
    expected: &T,
    got: &T,
) -> Checked {
    ensure(
        expected == got,
        check,
        format!("`{expected}`"),
        format!("`{got}`"),
    )
}

/// Fails if a text is empty. `field` is named as the protocol does.
pub(crate) fn filled(check: &str, field: &str, text: &str) -> Checked {
    ensure(!text.is_empty(), check, format!("a {field}"), "none")
}

/// What a driver answered to one call.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    call: String,
    result: Result<T, Status>,
}

/// Makes a call and keeps its name beside the answer.
pub(crate) async fn ask<T>(
    rpc: &str,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Answer<T> {
    Answer {
        call: rpc.to_owned(),
        result: call.await.map(Response::into_inner),
    }
}

impl<T> Answer<T> {
    /// Says what is special about the call, for the report: `CreateVolume without a name`.
    pub(crate) fn when(mut self, circumstance: &str) -> Self {
        self.call = format!("{} {circumstance}", self.call);
        self
    }

    /// The call, as the report names it.
    pub(crate) fn call(&self) -> &str {
        &self.call
    }

    pub(crate) fn result(&self) -> Result<&T, &Status> {
        self.result.as_ref()
    }

    /// The answer, or why there is none.
    pub(crate) fn known(self) -> Result<T, Failure> {
        let Self { call, result } = self;
        result.map_err(|status| Failure::new(call, "OK", describe(&status)))
    }

    /// The answer of a call that must succeed.
    pub(crate) fn ok(self) -> Checked<T> {
        Ok(self.known()?)
    }

    /// The call must be refused, with this code.
    pub(crate) fn refused_with(self, code: Code) -> Checked {
        let got = match &self.result {
            Err(status) if status.code() == code => return Ok(()),
            Err(status) => describe(status),
            Ok(_) => "OK".to_owned(),
        };
        Err(Failure::new(self.call, code_name(code), got).into())
    }

    /// The call must be refused; the specification leaves the code to the driver. "I do not have this call" and
    /// "there was no answer" do not count as refusals.
    pub(crate) fn refused(self) -> Checked {
        let got = match &self.result {
            Err(status) if is_refusal(status.code()) => return Ok(()),
            Err(status) => describe(status),
            Ok(_) => "OK".to_owned(),
        };
        Err(Failure::new(self.call, "an error that refuses the request", got).into())
    }
}

fn is_refusal(code: Code) -> bool {
    !matches!(
        code,
        Code::Ok
            | Code::Unimplemented
            | Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
    )
}

/// Code and message. Control characters are escaped: a driver must not be able to steer the terminal.
pub(crate) fn describe(status: &Status) -> String {
    let code = code_name(status.code());
    if status.message().is_empty() {
        return code.to_owned();
    }
    let mut text = format!("{code}: ");
    for character in status.message().chars() {
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

/// A code as the specification spells it.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(result: Result<(), Status>) -> Answer<()> {
        Answer {
            call: "DeleteVolume".to_owned(),
            result,
        }
    }

    fn failure(checked: Checked) -> Failure {
        match checked {
            Err(Stop::Failed(failure)) => failure,
            other => panic!("no failure: {other:?}"),
        }
    }

    #[test]
    fn a_wrong_code_is_reported_with_the_right_one() {
        let refusal = answer(Err(Status::internal("oops"))).when("without an id");
        assert_eq!(
            failure(refusal.refused_with(Code::InvalidArgument)),
            Failure::new(
                "DeleteVolume without an id",
                "INVALID_ARGUMENT",
                "INTERNAL: oops"
            )
        );
        assert_eq!(
            failure(answer(Ok(())).refused_with(Code::NotFound)).got,
            "OK"
        );
        answer(Err(Status::not_found("")))
            .refused_with(Code::NotFound)
            .unwrap();
    }

    #[test]
    fn silence_is_no_refusal() {
        answer(Err(Status::not_found(""))).refused().unwrap();
        for status in [
            Status::unimplemented(""),
            Status::unavailable(""),
            Status::deadline_exceeded(""),
        ] {
            let code = code_name(status.code());
            assert_eq!(failure(answer(Err(status)).refused()).got, code);
        }
        assert_eq!(failure(answer(Ok(())).refused()).got, "OK");
    }

    #[test]
    fn a_message_cannot_steer_the_terminal() {
        let status = Status::internal("a\u{1b}[2Jb\nc");
        assert_eq!(describe(&status), "INTERNAL: a\\u{1b}[2Jb\\nc");
    }

    #[test]
    fn values_are_shown_on_both_sides() {
        same("volume_id", "a", "a").unwrap();
        assert_eq!(
            failure(same("volume_id", "a", "b")),
            Failure::new("volume_id", "`a`", "`b`")
        );
    }
}
