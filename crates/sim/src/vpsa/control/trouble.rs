//! What can happen to a request.

use serde::{Deserialize, Serialize};

use crate::faults;

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Trouble {
    /// What happens to those of every array.
    Common(faults::Trouble),
    /// What happens to those of this one.
    Own(Own),
}

/// What happens to requests of this array only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Own {
    /// Nothing is done, and the answer has HTTP 200 and this code inside.
    Say {
        /// The code.
        status: i64,
        /// The sentence.
        message: String,
    },
    /// The work is done, and the answer says otherwise.
    DoneButSay {
        /// The code.
        status: i64,
        /// The sentence.
        message: String,
    },
    /// Nothing is done, and the answer makes no sense.
    Garbage,
    /// The work is done, and the answer makes no sense.
    DoneButGarbage,
    /// The work is done, and the answer says that it has been submitted.
    Submitted,
    /// Nothing is done and never will be, and the answer says that it has been submitted.
    SubmittedAndForgotten,
}

impl Default for Trouble {
    fn default() -> Self {
        Self::Common(faults::Trouble::default())
    }
}

impl From<faults::Trouble> for Trouble {
    fn from(trouble: faults::Trouble) -> Self {
        Self::Common(trouble)
    }
}

impl From<Own> for Trouble {
    fn from(trouble: Own) -> Self {
        Self::Own(trouble)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn troubles_are_written_as_the_guide_says() {
        for (text, trouble) in [
            (
                json!({"refuse": 503}),
                Trouble::from(faults::Trouble::Refuse(503)),
            ),
            (json!("drop"), faults::Trouble::Drop.into()),
            (json!("hold"), faults::Trouble::Hold.into()),
            (json!("garbage"), Own::Garbage.into()),
            (json!("submitted"), Own::Submitted.into()),
            (
                json!({"say": {"status": 5, "message": "no"}}),
                Own::Say {
                    status: 5,
                    message: "no".to_owned(),
                }
                .into(),
            ),
        ] {
            let read: Trouble = serde_json::from_value(text.clone()).unwrap();
            assert_eq!(read, trouble, "{text}");
            assert_eq!(serde_json::to_value(&trouble).unwrap(), text);
        }
        assert!(serde_json::from_value::<Trouble>(json!("earthquake")).is_err());
    }
}
