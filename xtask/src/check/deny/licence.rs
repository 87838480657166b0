//! Licence expressions as packages write them: `MIT OR (Apache-2.0 AND ISC)`, `Apache-2.0 WITH LLVM-exception`, `MIT/Apache-2.0`.

use std::collections::BTreeSet;

/// Whether the licences of the list are enough for what an expression asks. One that cannot be read is not.
pub fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = Words(spaced.split_whitespace().collect(), allowed);
    words.0.reverse();
    words.any_of() == Some(true) && words.0.is_empty()
}

/// What is left to be read, the next word last; and the list.
struct Words<'a>(Vec<&'a str>, &'a BTreeSet<String>);

impl Words<'_> {
    fn takes(&mut self, word: &str) -> bool {
        self.0.pop_if(|next| next == &word).is_some()
    }

    fn any_of(&mut self) -> Option<bool> {
        let mut allowed = self.all_of()?;
        while self.takes("OR") {
            allowed |= self.all_of()?;
        }
        Some(allowed)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut allowed = self.one()?;
        while self.takes("AND") {
            allowed &= self.one()?;
        }
        Some(allowed)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let inner = self.any_of()?;
            return self.takes(")").then_some(inner);
        }
        let mut licence = self.0.pop()?.to_owned();
        if self.takes("WITH") {
            licence = format!("{licence} WITH {}", self.0.pop()?);
        }
        Some(self.1.contains(&licence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_weighed() {
        let allowed: BTreeSet<String> = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]
            .map(str::to_owned)
            .into();
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("Apache-2.0 / MIT", true),
            ("MIT AND ISC", true),
            ("MIT AND GPL-3.0", false),
            ("MIT OR ISC AND GPL-3.0", true),
            ("(MIT OR ISC) AND GPL-3.0", false),
            ("(GPL-3.0 OR MIT) AND (ISC)", true),
            ("Apache-2.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT ISC", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
    }
}
