//! Errors for people: what happened, and why, in one line.

use std::error::Error;

/// An error with all its causes.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    chain_with(error, |_| None)
}

/// An error with all its causes, where some errors are told in other words than their own: for those that `reword`
/// knows, its text is taken, and what lies below them is left out.
pub fn chain_with(
    error: &(dyn Error + 'static),
    reword: impl Fn(&(dyn Error + 'static)) -> Option<String>,
) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let reworded = reword(error);
        next = error.source().filter(|_| reworded.is_none());
        let link = reworded.unwrap_or_else(|| error.to_string());
        // `transparent` errors, and those that quote their cause, have told it already.
        if text.is_empty() {
            text = link;
        } else if !text.contains(&link) {
            text += ": ";
            text += &link;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("cannot open the door")]
        Door(#[source] fmt::Error),
        #[error("the door: {0}")]
        Quoted(#[source] fmt::Error),
        #[error(transparent)]
        Same(#[from] fmt::Error),
    }

    #[test]
    fn every_cause_is_told_once() {
        let cause = fmt::Error.to_string();
        let told = chain(&Outer::Door(fmt::Error));
        assert_eq!(told, format!("cannot open the door: {cause}"));
        let quoted = chain(&Outer::Quoted(fmt::Error));
        assert_eq!(quoted, format!("the door: {cause}"));
        assert_eq!(chain(&Outer::Same(fmt::Error)), cause);
    }

    #[test]
    fn an_error_in_other_words_ends_the_chain() {
        let told = chain_with(&Outer::Door(fmt::Error), |error| {
            error.is::<Outer>().then(|| "it is locked".to_owned())
        });
        assert_eq!(told, "it is locked");
        let told = chain_with(&Outer::Door(fmt::Error), |error| {
            error.is::<fmt::Error>().then(|| "it is locked".to_owned())
        });
        assert_eq!(told, "cannot open the door: it is locked");
    }
}
