//! No production file and no function of one is larger than a reader can hold. Tests may be.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, Item, ItemFn, Signature, TraitItemFn};

use super::finding::Finding;
use super::sources::Source;

/// Lines of a file.
const FILE: usize = 350;
/// Lines of a function, from its name to its last brace.
const FUNCTION: usize = 60;

pub fn check(source: &Source) -> Vec<Finding> {
    if !source.is_production() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE {
        let place = source.path.display().to_string();
        let what = format!("{lines} lines, and {FILE} is the most: split it");
        findings.push(Finding::new(place, what));
    }
    let mut functions = Functions { source, findings };
    functions.visit_file(&source.syntax);
    functions.findings
}

struct Functions<'a> {
    source: &'a Source,
    findings: Vec<Finding>,
}

impl Functions<'_> {
    fn measure(&mut self, signature: &Signature, block: &Block) {
        let (start, end) = (signature.span().start().line, block.span().end().line);
        let lines = end + 1 - start;
        if lines > FUNCTION {
            let name = &signature.ident;
            let what = format!("`{name}` has {lines} lines, and {FUNCTION} is the most: split it");
            self.findings
                .push(Finding::at(&self.source.path, start, what));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.measure(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

/// `#[test]`, `#[tokio::test]` or `#[cfg(test)]`.
fn is_for_tests(attribute: &Attribute) -> bool {
    let path = attribute.path();
    let names_test = path
        .segments
        .last()
        .is_some_and(|last| last.ident == "test");
    let is_cfg = || {
        let condition = attribute.parse_args::<syn::Path>();
        path.is_ident("cfg") && condition.is_ok_and(|condition| condition.is_ident("test"))
    };
    names_test || is_cfg()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: String) -> Vec<String> {
        let source = Source::parse(path, text).unwrap();
        check(&source).iter().map(ToString::to_string).collect()
    }

    /// A function of this many lines.
    fn function(lines: usize) -> String {
        format!("fn long() {{{}}}\n", "\n".repeat(lines - 1))
    }

    #[test]
    fn a_long_file_is_found_unless_it_holds_tests() {
        assert!(found("crates/a/src/b.rs", "\n".repeat(350)).is_empty());
        assert_eq!(
            found("crates/a/src/b.rs", "\n".repeat(351)),
            ["crates/a/src/b.rs: 351 lines, and 350 is the most: split it"]
        );
        for path in [
            "crates/a/tests/b.rs",
            "crates/a/src/b/tests.rs",
            "tests/lib.rs",
        ] {
            assert!(found(path, "\n".repeat(351)).is_empty(), "{path}");
        }
    }

    #[test]
    fn a_long_function_is_found_wherever_it_stands() {
        let long = "`long` has 61 lines, and 60 is the most: split it";
        assert!(found("a.rs", function(60)).is_empty());
        assert_eq!(found("a.rs", function(61)), [format!("a.rs:1: {long}")]);
        for (text, line) in [
            (format!("impl A {{\n{}}}", function(61)), 2),
            (format!("trait A {{\n\n{}}}", function(61)), 3),
            (format!("fn outer() {{ mod a {{\n{}}}}}", function(61)), 2),
            (
                format!("/// What it does.\n#[must_use]\n{}", function(61)),
                3,
            ),
        ] {
            let found = found("a.rs", text);
            assert!(found.contains(&format!("a.rs:{line}: {long}")), "{found:?}");
        }
    }

    #[test]
    fn a_test_may_be_long() {
        for attribute in [
            "#[test]",
            "#[tokio::test(flavor = \"multi_thread\")]",
            "#[cfg(test)]",
        ] {
            assert!(found("a.rs", format!("{attribute}\n{}", function(61))).is_empty());
        }
        let module = format!("#[cfg(test)]\nmod tests {{\n{}}}", function(61));
        assert!(found("a.rs", module).is_empty());
    }
}
