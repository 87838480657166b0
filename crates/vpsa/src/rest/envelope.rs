//! What is around every answer.
//!
//! `{"response": {"status": 0, ...}}` with HTTP 200, also where the array says no: then the status inside is another
//! number, and the message is in one of several places.

use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};
use stowage_rest::lenient;

use super::error::ApiError;
use super::refusal::Refusal;

/// What the array says, with a status that is not 0, when it has taken work on that is not finished.
const SUBMITTED: &str = "the request has been submitted";

/// How much of the array's words is passed on.
const LONGEST_MESSAGE: usize = 300;

/// What the array answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// The fields of `response`.
    Done(Map<String, Value>),
    /// The work is not finished, and there is no name for it: look at what it is about.
    Submitted,
}

/// What an answer is to be understood by.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) doing: &'static str,
    pub(super) address: &'a str,
    /// Is not passed on, should the array repeat it.
    pub(super) access_key: &'a str,
}

/// What an answer means.
pub(super) fn judge(asked: Asked<'_>, status: StatusCode, body: &[u8]) -> Result<Answer, ApiError> {
    let parsed = serde_json::from_slice::<Value>(body);
    if is_http_failure(status) {
        // Whoever stands between answers for paths that it does not know as well.
        if status == StatusCode::NOT_FOUND
            && let Ok(answer) = &parsed
            && let Some(code) = code(answer).filter(|code| *code != 0)
        {
            return Err(refused(asked, code, &message(answer)));
        }
        let said = parsed.ok().map(|answer| message(&answer));
        let said = said.filter(|said| !said.is_empty());
        let said = said.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
        return Err(failure(asked, status, &said));
    }
    if body.trim_ascii().is_empty() {
        return Ok(Answer::Done(Map::new()));
    }
    let malformed = |reason: String| ApiError::Malformed {
        doing: asked.doing,
        reason,
    };
    let answer = parsed.map_err(|error| malformed(error.to_string()))?;
    let code = code(&answer).ok_or_else(|| malformed("it has no status".to_owned()))?;
    if code == 0 {
        return match answer {
            Value::Object(mut fields) => match fields.remove("response") {
                Some(Value::Object(fields)) => Ok(Answer::Done(fields)),
                _ => Err(malformed("it has no `response`".to_owned())),
            },
            _ => Err(malformed("it is not an object".to_owned())),
        };
    }
    let message = message(&answer);
    if message.to_lowercase().contains(SUBMITTED) {
        return Ok(Answer::Submitted);
    }
    Err(refused(asked, code, &message))
}

/// Everything but what the array's clients take for an answer.
fn is_http_failure(status: StatusCode) -> bool {
    !status.is_success() && status != StatusCode::FOUND
}

fn failure(asked: Asked<'_>, status: StatusCode, said: &str) -> ApiError {
    let code = i64::from(status.as_u16());
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ApiError::Credentials {
            address: asked.address.to_owned(),
            message: told(asked, said),
        },
        StatusCode::CONFLICT => ApiError::Refused {
            doing: asked.doing,
            refusal: Refusal::Busy,
            code,
            message: told(asked, said),
        },
        status
            if status.is_server_error()
                || status == StatusCode::TOO_MANY_REQUESTS
                || status == StatusCode::NOT_FOUND =>
        {
            ApiError::Unavailable {
                address: asked.address.to_owned(),
                status: status.as_u16(),
                message: told(asked, said),
            }
        }
        _ => refused(asked, code, said),
    }
}

fn refused(asked: Asked<'_>, code: i64, said: &str) -> ApiError {
    let message = told(asked, said);
    match Refusal::of(code, said) {
        Refusal::Credentials => ApiError::Credentials {
            address: asked.address.to_owned(),
            message,
        },
        refusal => ApiError::Refused {
            doing: asked.doing,
            refusal,
            code,
            message,
        },
    }
}

/// `response.status`, or the same without the envelope, as some errors come.
fn code(answer: &Value) -> Option<i64> {
    #[derive(Deserialize)]
    struct Code(#[serde(deserialize_with = "lenient::text")] String);
    let status = [&answer["response"]["status"], &answer["status"]];
    let found = status.into_iter().find(|status| !status.is_null())?;
    let Code(text) = Code::deserialize(found).ok()?;
    text.trim().parse().ok()
}

/// The array's words, wherever they are.
fn message(answer: &Value) -> String {
    let response = &answer["response"];
    for place in [response, answer] {
        for name in ["message", "status_msg", "status-msg"] {
            if let Some(text) = place[name].as_str().filter(|text| !text.is_empty()) {
                return text.to_owned();
            }
        }
        let errors = place["errors"].as_array().into_iter().flatten();
        let texts: Vec<_> = errors
            .filter_map(|error| error["message"].as_str())
            .collect();
        if !texts.is_empty() {
            return texts.join("; ");
        }
    }
    String::new()
}

fn told(asked: Asked<'_>, said: &str) -> String {
    let mut said = said.to_owned();
    if !asked.access_key.is_empty() {
        said = said.replace(asked.access_key, "***");
    }
    said.chars().take(LONGEST_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ASKED: Asked<'static> = Asked {
        doing: "create a volume",
        address: "array",
        access_key: "KEY-1",
    };

    fn judged(status: u16, body: &Value) -> Result<Answer, ApiError> {
        let status = StatusCode::from_u16(status).unwrap();
        judge(ASKED, status, body.to_string().as_bytes())
    }

    #[test]
    fn an_answer_with_status_zero_is_one_however_the_zero_is_written() {
        for zero in [json!(0), json!("0"), json!(" 0 ")] {
            let answer = judged(
                200,
                &json!({"response": {"status": zero, "vol_name": "volume-1"}}),
            );
            let Ok(Answer::Done(fields)) = answer else {
                panic!("{answer:?}");
            };
            assert_eq!(fields["vol_name"], "volume-1");
        }
        let empty = judge(ASKED, StatusCode::NO_CONTENT, b"");
        assert!(matches!(empty, Ok(Answer::Done(fields)) if fields.is_empty()));
    }

    #[test]
    fn work_that_was_taken_on_is_not_an_error() {
        let said = "The request has been submitted, it may take a while";
        let answer = judged(200, &json!({"response": {"status": 1, "message": said}}));
        assert!(matches!(answer, Ok(Answer::Submitted)), "{answer:?}");
    }

    #[test]
    fn words_are_found_wherever_the_array_puts_them() {
        for body in [
            json!({"response": {"status": 10096, "message": "name taken"}}),
            json!({"response": {"status": "10096", "status_msg": "name taken"}}),
            json!({"response": {"status": 10096, "status-msg": "name taken"}}),
            json!({"response": {"status": 10096, "errors": [{"message": "name taken"}]}}),
            json!({"response": {"status": 10096}, "message": "name taken"}),
            json!({"status": 10096, "status-msg": "name taken"}),
        ] {
            let error = judged(200, &body).unwrap_err();
            assert_eq!(error.refusal(), Some(Refusal::NameTaken), "{body}");
            assert!(error.to_string().contains("name taken"), "{error}");
        }
    }

    #[test]
    fn http_failures_are_told_apart() {
        let body = json!({"response": {"status": 5, "message": "Invalid credentials."}});
        for status in [200, 401, 403] {
            let error = judged(status, &body).unwrap_err();
            assert!(matches!(error, ApiError::Credentials { .. }), "{error}");
        }
        for status in [429, 500, 502, 503] {
            let error = judged(status, &body).unwrap_err();
            assert!(matches!(error, ApiError::Unavailable { .. }), "{error}");
        }
        let gone = json!({"response": {"status": 10081, "message": "Volume not found"}});
        assert!(judged(404, &gone).unwrap_err().is_not_found());
        for body in [
            json!({}),
            json!("not found"),
            json!({"message": "Not Found"}),
        ] {
            let error = judged(404, &body).unwrap_err();
            assert!(matches!(error, ApiError::Unavailable { .. }), "{error}");
        }
        let conflict = judged(409, &json!({})).unwrap_err();
        assert_eq!(conflict.refusal(), Some(Refusal::Busy));
    }

    #[test]
    fn nonsense_is_called_so() {
        for body in [
            "nonsense",
            "[]",
            "{}",
            "{\"response\": 7}",
            "{\"response\": {\"status\": \"x\"}}",
        ] {
            let error = judge(ASKED, StatusCode::OK, body.as_bytes()).unwrap_err();
            assert!(
                matches!(error, ApiError::Malformed { .. }),
                "{body}: {error}"
            );
        }
    }

    #[test]
    fn the_access_key_is_not_passed_on_and_a_flood_is_cut() {
        let said = format!("KEY-1 is wrong {}", "x".repeat(5000));
        for status in [200, 500] {
            let body = json!({"response": {"status": 7, "message": said}});
            let error = judged(status, &body).unwrap_err().to_string();
            assert!(!error.contains("KEY-1") && error.len() < 500, "{error}");
        }
    }
}
