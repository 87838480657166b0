//! How long a call may take: the `grpc-timeout` header and the clock behind it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;

pub(crate) const HEADER: HeaderName = HeaderName::from_static("grpc-timeout");

/// The transport underneath watches the same header and would answer CANCELLED. The driver's side therefore
/// ends a call a moment early; the caller then also gets our answer before it gives up by itself.
const HEAD_START: Duration = Duration::from_millis(10);

/// What ends a call from outside: its deadline, or the end of the server.
pub(crate) struct Limits {
    deadline: Option<Pin<Box<Sleep>>>,
    cut_off: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Limits {
    pub(crate) fn of_server(headers: &HeaderMap, cut_off: &CancellationToken) -> Self {
        let deadline =
            read(headers).map(|timeout| timeout.saturating_sub(HEAD_START.min(timeout / 10)));
        Self {
            deadline: deadline.map(|timeout| Box::pin(sleep(timeout))),
            cut_off: Some(Box::pin(cut_off.clone().cancelled_owned())),
        }
    }

    pub(crate) fn of_client(timeout: Duration) -> Self {
        Self {
            deadline: Some(Box::pin(sleep(timeout))),
            cut_off: None,
        }
    }

    /// Waits for the first limit, and gives the answer to the call it ends.
    pub(crate) async fn exceeded(&mut self) -> Status {
        poll_fn(|cx| self.poll_exceeded(cx)).await
    }

    pub(crate) fn poll_exceeded(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Status::deadline_exceeded(
                "the call took longer than its deadline allows",
            ));
        }
        if let Some(cut_off) = &mut self.cut_off
            && cut_off.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Status::unavailable("the driver is shutting down"));
        }
        Poll::Pending
    }
}

/// How long the caller of a request waits for its answer, if it said so: what takes longer is work for nobody.
pub fn of_request<T>(request: &tonic::Request<T>) -> Option<Duration> {
    read(request.metadata().as_ref())
}

/// The timeout a caller set. One that cannot be read counts as none: the work is still wanted.
pub(crate) fn read(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(HEADER)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// The header's value for a timeout: at most eight digits, so long ones lose their milliseconds.
pub(crate) fn write(timeout: Duration) -> HeaderValue {
    const MOST: u128 = 99_999_999;
    let text = if timeout.as_millis() <= MOST {
        format!("{}m", timeout.as_millis())
    } else {
        format!("{}S", u128::from(timeout.as_secs()).min(MOST))
    };
    HeaderValue::try_from(text).expect("digits and a letter are a header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &'static str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_static(text));
        read(&headers)
    }

    #[test]
    fn every_unit_is_understood() {
        assert_eq!(read_text("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read_text("3M"), Some(Duration::from_secs(180)));
        assert_eq!(
            read_text("99999999S"),
            Some(Duration::from_secs(99_999_999))
        );
        assert_eq!(read_text("5m"), Some(Duration::from_millis(5)));
        assert_eq!(read_text("119999987u"), None);
        assert_eq!(
            read_text("99999987u"),
            Some(Duration::from_micros(99_999_987))
        );
        assert_eq!(read_text("7n"), Some(Duration::from_nanos(7)));
    }

    #[test]
    fn nonsense_is_no_timeout() {
        for text in ["", "S", "5", "5x", "-5S", "+5S", " 5S", "5 S", "123456789S"] {
            assert_eq!(read_text(text), None, "{text:?}");
        }
        assert_eq!(read(&HeaderMap::new()), None);
    }

    #[test]
    fn what_is_written_is_read_back() {
        for timeout in [
            Duration::ZERO,
            Duration::from_millis(1500),
            Duration::from_secs(99_999),
            Duration::from_secs(200_000),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, write(timeout));
            assert_eq!(read(&headers), Some(timeout));
        }
        assert_eq!(write(Duration::MAX), "99999999S");
    }
}
