//! Errors for people: what happened, and why, in one line.

use std::error::Error;

/// An error with all its causes. `transparent` errors tell their cause's text already.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.ends_with(&said) {
            text += ": ";
            text += &said;
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("cannot open the door")]
        Door(#[source] std::fmt::Error),
        #[error(transparent)]
        Same(#[from] std::fmt::Error),
    }

    #[test]
    fn every_cause_is_told_once() {
        let cause = std::fmt::Error.to_string();
        let told = chain(&Outer::Door(std::fmt::Error));
        assert_eq!(told, format!("cannot open the door: {cause}"));
        assert_eq!(chain(&Outer::Same(std::fmt::Error)), cause);
    }
}
