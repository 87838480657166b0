//! Which cases run.

use crate::case::{Case, Group};

/// Cases chosen by text. A text matches if it occurs anywhere in `<group>: <case>`, in any letter case.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only cases that match one of these; none means all.
    pub focus: Vec<String>,
    /// No case that matches one of these.
    pub skip: Vec<String>,
}

/// Why there is nothing to run.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FilterError {
    /// Probably a typing mistake. Running the other filters' cases would look like success.
    #[error("no case matches {option} `{text}`: `--list` shows all cases")]
    NoMatch {
        /// The option.
        option: &'static str,
        /// What was typed.
        text: String,
    },
    /// Each filter matches, and together they leave nothing.
    #[error(
        "--skip removes every case that --focus chose: `--list` shows what is left of all cases"
    )]
    NothingLeft,
}

/// The name of a case in filters and lists.
pub(crate) fn full_name(group: &Group, case: &Case) -> String {
    format!("{}: {}", group.name, case.name)
}

impl Filter {
    /// The chosen cases, in their order.
    pub(crate) fn select(
        &self,
        groups: &[&'static Group],
    ) -> Result<Vec<(&'static Group, &'static Case)>, FilterError> {
        let all: Vec<_> = groups
            .iter()
            .flat_map(|group| group.cases.iter().map(|case| (*group, case)))
            .map(|(group, case)| (group, case, full_name(group, case).to_lowercase()))
            .collect();
        let matches = |name: &str, text: &String| name.contains(&text.to_lowercase());
        let texts = self.focus.iter().map(|text| ("--focus", text));
        for (option, text) in texts.chain(self.skip.iter().map(|text| ("--skip", text))) {
            if !all.iter().any(|(_, _, name)| matches(name, text)) {
                let text = text.clone();
                return Err(FilterError::NoMatch { option, text });
            }
        }
        let chosen: Vec<_> = all
            .into_iter()
            .filter(|(_, _, name)| {
                let focused =
                    self.focus.is_empty() || self.focus.iter().any(|text| matches(name, text));
                focused && !self.skip.iter().any(|text| matches(name, text))
            })
            .map(|(group, case, _)| (group, case))
            .collect();
        if chosen.is_empty() {
            return Err(FilterError::NothingLeft);
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::GROUPS;

    fn chosen(focus: &[&str], skip: &[&str]) -> Result<Vec<String>, FilterError> {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        let filter = Filter {
            focus: texts(focus),
            skip: texts(skip),
        };
        let chosen = filter.select(GROUPS)?;
        Ok(chosen
            .into_iter()
            .map(|(group, case)| full_name(group, case))
            .collect())
    }

    #[test]
    fn without_filters_all_cases_run() {
        assert_eq!(chosen(&[], &[]).unwrap().len(), 95);
    }

    #[test]
    fn a_filter_matches_group_and_case_in_any_letter_case() {
        let names = chosen(&["identity: PROBE"], &[]).unwrap();
        assert_eq!(names.len(), 1, "{names:?}");
        assert!(names[0].starts_with("Identity: Probe"), "{names:?}");
    }

    #[test]
    fn filters_of_one_kind_add_up_and_skip_wins() {
        let both = chosen(&["GetSnapshot", "GetCapacity"], &[]).unwrap();
        assert_eq!(both.len(), 4, "{both:?}");
        let fewer = chosen(&["GetSnapshot", "GetCapacity"], &["getcapacity"]).unwrap();
        assert_eq!(fewer.len(), 3, "{fewer:?}");
    }

    #[test]
    fn a_text_that_matches_nothing_is_an_error() {
        for (focus, skip, option) in [
            (
                ["Identity", "Identidy"].as_slice(),
                [].as_slice(),
                "--focus",
            ),
            ([].as_slice(), ["Identidy"].as_slice(), "--skip"),
        ] {
            let text = "Identidy".to_owned();
            assert_eq!(
                chosen(focus, skip),
                Err(FilterError::NoMatch { option, text })
            );
        }
        assert_eq!(
            chosen(&["Identity"], &["Identity"]),
            Err(FilterError::NothingLeft)
        );
    }
}
