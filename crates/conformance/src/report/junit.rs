//! The report as `JUnit` XML: a suite per group, as CI systems show it.

use std::fmt::{self, Write as _};

use super::{CaseReport, Outcome, Report};

/// The whole document.
pub(crate) fn junit(report: &Report) -> String {
    let mut xml = String::new();
    write(&mut xml, report).expect("a String takes everything");
    xml
}

fn write(xml: &mut String, report: &Report) -> fmt::Result {
    let counts = report.counts();
    writeln!(xml, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        xml,
        r#"<testsuites name="conformance {}" tests="{}" failures="{}" skipped="{}" time="{:.3}">"#,
        Escaped(&report.driver.name),
        report.cases.len(),
        counts.failed,
        counts.skipped,
        report.seconds
    )?;
    for cases in report.cases.chunk_by(|one, next| one.group == next.group) {
        suite(xml, cases)?;
    }
    writeln!(xml, "</testsuites>")
}

fn suite(xml: &mut String, cases: &[CaseReport]) -> fmt::Result {
    let count = |is: fn(&Outcome) -> bool| cases.iter().filter(|case| is(&case.outcome)).count();
    writeln!(
        xml,
        r#"  <testsuite name="{}" tests="{}" failures="{}" errors="0" skipped="{}" time="{:.3}">"#,
        Escaped(cases[0].group),
        cases.len(),
        count(|outcome| matches!(outcome, Outcome::Failed { .. })),
        count(|outcome| matches!(outcome, Outcome::Skipped { .. })),
        cases.iter().map(|case| case.seconds).sum::<f64>()
    )?;
    for case in cases {
        write!(
            xml,
            r#"    <testcase classname="{}" name="{}" time="{:.3}""#,
            Escaped(case.group),
            Escaped(case.name),
            case.seconds
        )?;
        body(xml, &case.outcome)?;
    }
    writeln!(xml, "  </testsuite>")
}

fn body(xml: &mut String, outcome: &Outcome) -> fmt::Result {
    match outcome {
        Outcome::Passed => writeln!(xml, "/>"),
        Outcome::Skipped { reason } => {
            let reason = Escaped(reason);
            writeln!(
                xml,
                ">\n      <skipped message=\"{reason}\"/>\n    </testcase>"
            )
        }
        Outcome::Failed { failures } => {
            writeln!(xml, ">")?;
            for failure in failures {
                let (check, expected, got) = (
                    Escaped(&failure.check),
                    Escaped(&failure.expected),
                    Escaped(&failure.got),
                );
                writeln!(
                    xml,
                    "      <failure message=\"{check}: expected {expected}, got {got}\"/>"
                )?;
            }
            writeln!(xml, "    </testcase>")
        }
    }
}

/// Text that is safe in an attribute. Characters that XML cannot hold at all become a question mark.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\t' | '\n' | '\r' => write!(f, "&#{};", u32::from(character))?,
                '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => f.write_char('?')?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}
