use super::*;

fn source(text: &str) -> Source {
    Source::parse("a.rs", text.to_owned()).unwrap()
}

fn crates() -> BTreeSet<String> {
    ["a", "anyhow", "c", "clap", "serde"]
        .map(str::to_owned)
        .into()
}

fn found(text: &str) -> Vec<String> {
    let found = check(&source(text), &crates());
    found.iter().map(ToString::to_string).collect()
}

const RIGHT: &str = "\
mod own;

use std::fmt;
use std::sync::{Arc, Weak};

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use self::own::Own;
use crate::{check, image};
use own::Other;
#[cfg(unix)]
use crate::{unix};

fn f() {
    use std::io::Write;
}
";

#[test]
fn the_style_of_the_house_passes() {
    assert_eq!(found(RIGHT), Vec::<String>::new());
    assert_eq!(mended(&source(RIGHT), &crates()), None);
}

#[test]
fn each_departure_from_it_is_found_and_mended() {
    for (text, line, what, mend) in [
        (
            "use std::{fmt, io::Write};",
            1,
            "within its braces",
            "use std::fmt;\nuse std::io::Write;",
        ),
        (
            "use a::{b::{C, D}, e};",
            1,
            "within its braces",
            "use a::e;\nuse a::b::{C, D};",
        ),
        (
            "use std::fs;\nuse std::io;",
            2,
            "a second `use` of `std`",
            "use std::{fs, io};",
        ),
        (
            "use std::fs;\nuse anyhow::bail;",
            2,
            "put an empty line",
            "use std::fs;\n\nuse anyhow::bail;",
        ),
        (
            "use a::b;\n\nuse std::fs;",
            3,
            "wrong group",
            "use std::fs;\n\nuse a::b;",
        ),
        (
            "use a::b;\n\nuse c::d;",
            3,
            "put them together",
            "use a::b;\nuse c::d;",
        ),
        (
            "use crate::a;\nuse serde;",
            2,
            "wrong group",
            "use serde;\n\nuse crate::a;",
        ),
        (
            "mod m {\n    use a::{b::C};\n}",
            2,
            "within its braces",
            "mod m {\n    use a::b::C;\n}",
        ),
        (
            "fn f() {\n    use a::{b::C};\n}",
            2,
            "within its braces",
            "fn f() {\n    use a::b::C;\n}",
        ),
        (
            "#[cfg(unix)]\nuse a::{b::C};",
            1,
            "within its braces",
            "#[cfg(unix)]\nuse a::b::C;",
        ),
    ] {
        let findings = found(text);
        let place = format!("a.rs:{line}: ");
        let right = |it: &String| it.starts_with(&place) && it.contains(what);
        assert!(findings.iter().any(right), "{text}: {findings:?}");
        let mended = mended(&source(text), &crates()).unwrap();
        // What rustfmt sorts is not this rule's business.
        let lines = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(lines(&mended), lines(mend));
        assert_eq!(found(&mended), Vec::<String>::new(), "{mended}");
    }
}

#[test]
fn a_re_export_among_imports_stays_one() {
    let text = "use std::fs;\npub(crate) use std::io;\nuse std::env;\nuse crate::a;";
    let mended = mended(&source(text), &crates()).unwrap();
    assert_eq!(
        mended,
        "use std::{fs, env};\npub(crate) use std::io;\n\nuse crate::a;"
    );
}

#[test]
fn a_comment_among_imports_is_left_to_a_person() {
    let text = "use std::fs;\n// Why.\nuse std::io;\n";
    assert_eq!(found(text).len(), 1);
    assert_eq!(mended(&source(text), &crates()), None);
}

#[test]
fn re_exports_stand_where_they_read_best() {
    assert!(found("pub use a::B;\nuse std::fs;\n\npub use c::D;").is_empty());
    assert_eq!(found("pub use a::{b::C};").len(), 1);
}
