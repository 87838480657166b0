//! What it means when the array says no.
//!
//! The array's codes are not documented, and the same code means different things in different places; so the table
//! below goes by code and words, and the first row that fits wins. New rows are added as they are met.

/// What it means when the array says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The access key is wrong.
    Credentials,
    /// What the call is about is not there.
    NotFound,
    /// Something else has this name.
    NameTaken,
    /// The volume is attached to a server, or the server has volumes.
    Attached,
    /// The volume has snapshots.
    HasSnapshots,
    /// There is no room, or the pool protects what is left of it.
    NoRoom,
    /// The object is being changed; later it may work.
    Busy,
    /// A parameter is wrong.
    Invalid,
    /// None of the above: the array's own words are all there is.
    Other,
}

/// A code, or any; words of the message, of which one must be there, or none.
struct Row(Option<i64>, &'static [&'static str], Refusal);

/// In lower case.
const TABLE: &[Row] = &[
    Row(Some(5), &[], Refusal::Credentials),
    Row(
        None,
        &["invalid credentials", "access key"],
        Refusal::Credentials,
    ),
    Row(Some(1793), &[], Refusal::Credentials),
    Row(Some(10096), &[], Refusal::NameTaken),
    Row(
        None,
        &["already exists", "already in use", "is taken", "duplicate"],
        Refusal::NameTaken,
    ),
    // Before the codes for "not found", which some versions use for volumes that are busy.
    Row(
        None,
        &["has snapshots", "snapshots exist", "delete its snapshots"],
        Refusal::HasSnapshots,
    ),
    Row(None, &["not attached"], Refusal::NotFound),
    Row(
        None,
        &["attached", "in use by server", "has volumes"],
        Refusal::Attached,
    ),
    Row(
        None,
        &[
            "not enough",
            "insufficient",
            "no space",
            "exceeds",
            "protected mode",
            "emergency mode",
            "capacity is low",
        ],
        Refusal::NoRoom,
    ),
    Row(
        None,
        &["busy", "in progress", "try again", "being "],
        Refusal::Busy,
    ),
    Row(Some(10081), &[], Refusal::NotFound),
    Row(Some(10086), &[], Refusal::NotFound),
    Row(Some(10097), &[], Refusal::NotFound),
    Row(
        None,
        &[
            "not found",
            "does not exist",
            "no such",
            "cannot find",
            "couldn't find",
        ],
        Refusal::NotFound,
    ),
    Row(
        None,
        &[
            "invalid",
            "must be",
            "must not",
            "not allowed",
            "required",
            "illegal",
        ],
        Refusal::Invalid,
    ),
];

impl Refusal {
    /// Looks a code and its message up.
    pub fn of(code: i64, message: &str) -> Self {
        let message = message.to_lowercase();
        TABLE
            .iter()
            .find(|Row(wanted, words, _)| {
                wanted.is_none_or(|wanted| wanted == code)
                    && (words.is_empty() || words.iter().any(|word| message.contains(word)))
            })
            .map_or(Self::Other, |Row(_, _, meaning)| *meaning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_messages_of_the_fact_sheet_are_understood() {
        for (code, message, meaning) in [
            (5, "", Refusal::Credentials),
            (5, "Invalid credentials.", Refusal::Credentials),
            (1, "Invalid credentials.", Refusal::Credentials),
            (1793, "Session expired", Refusal::Credentials),
            (
                10081,
                "Virtual volume volume-00000001 not found",
                Refusal::NotFound,
            ),
            (10081, "The volume is busy", Refusal::Busy),
            (
                10081,
                "A snapshot with this name already exists",
                Refusal::NameTaken,
            ),
            (10086, "Server does not exist", Refusal::NotFound),
            (10096, "Name is not unique", Refusal::NameTaken),
            (10097, "", Refusal::NotFound),
            (1, "The volume has snapshots", Refusal::HasSnapshots),
            (1, "Volume is attached to servers", Refusal::Attached),
            (
                1,
                "Volume is not attached to srv-00000001",
                Refusal::NotFound,
            ),
            (1, "Pool is in protected mode", Refusal::NoRoom),
            (
                1,
                "Requested capacity exceeds pool capacity",
                Refusal::NoRoom,
            ),
            (1, "Volume name must not contain quotes", Refusal::Invalid),
            (1, "The heavens have fallen", Refusal::Other),
        ] {
            assert_eq!(Refusal::of(code, message), meaning, "{code} {message}");
        }
    }
}
