//! A report as text. Pure.
//!
//! What needs something comes first; what it needs is written once, below, however many volumes need the same.

use stowage_weka::takeover::{Checked, Report};

use super::yaml;
use crate::layout::{columns, printable};

/// The notes below the tables, each once.
#[derive(Default)]
struct Notes(Vec<(&'static str, String)>);

impl Notes {
    /// The number of a note.
    fn number(&mut self, kind: &'static str, text: &str) -> usize {
        let place = self.0.iter().position(|note| note.1 == text);
        let place = place.unwrap_or_else(|| {
            self.0.push((kind, text.to_owned()));
            self.0.len() - 1
        });
        place + 1
    }

    fn numbers(&mut self, kind: &'static str, texts: &[String]) -> String {
        let numbers = texts.iter().map(|text| self.number(kind, text));
        let numbers: Vec<_> = numbers.map(|number| format!("[{number}]")).collect();
        numbers.join(" ")
    }
}

/// Draws a report, as wide as it gets.
pub fn draw(report: &Report) -> anyhow::Result<String> {
    let mut text = headline(report);
    for need in &report.needs {
        text.push_str(&format!("needs: {need}\n"));
    }
    for remark in &report.remarks {
        text.push_str(&format!("note: {remark}\n"));
    }
    let mut notes = Notes::default();
    for (thing, list) in [
        ("volume", &report.volumes),
        ("storage class", &report.classes),
        ("snapshot class", &report.snapshot_classes),
        ("snapshot", &report.snapshots),
    ] {
        text.push_str(&table(thing, list, &mut notes));
    }
    if !notes.0.is_empty() {
        text.push('\n');
    }
    for (place, (kind, note)) in notes.0.iter().enumerate() {
        text.push_str(&format!("[{}] {kind}: {note}\n", place + 1));
    }
    text.push_str(&workloads(report));
    text.push_str(&instance(report)?);
    for (place, step) in report.steps.iter().enumerate() {
        text.push_str(&format!("\n# {}. {}.\n", place + 1, step.title));
        for command in &step.commands {
            text.push_str(command);
            text.push('\n');
        }
    }
    Ok(printable(&text))
}

fn headline(report: &Report) -> String {
    let verdict = if report.clear {
        "nothing stands in the way"
    } else {
        "something stands in the way"
    };
    format!(
        "Driver {}, to be run by the CSIDriverDeployment {}: {verdict}.\n",
        report.driver, report.instance
    )
}

fn table(thing: &str, list: &[Checked], notes: &mut Notes) -> String {
    if list.is_empty() {
        return String::new();
    }
    let working = list.iter().filter(|it| it.works()).count();
    let plural = match (list.len(), thing.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    let mut text = format!("\n{} {thing}{plural}: {working} work", list.len());
    if working < list.len() {
        text.push_str(&format!(", {} need something first", list.len() - working));
    }
    text.push_str(".\n\n");
    let head = [
        thing.to_uppercase(),
        "USED BY".to_owned(),
        "KIND".to_owned(),
        "VERDICT".to_owned(),
    ];
    let mut rows = vec![head.to_vec()];
    let (works, needs): (Vec<_>, Vec<_>) = list.iter().partition(|it| it.works());
    for checked in needs.into_iter().chain(works) {
        let needs = notes.numbers("needs", &checked.needs);
        let remarks = notes.numbers("note", &checked.remarks);
        let verdict = match (needs.as_str(), remarks.as_str()) {
            ("", "") => "works".to_owned(),
            ("", remarks) => format!("works, see {remarks}"),
            (needs, "") => format!("needs {needs}"),
            (needs, remarks) => format!("needs {needs}, see {remarks}"),
        };
        let or_dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
        rows.push(vec![
            checked.name.clone(),
            or_dash(checked.used_by.as_deref()),
            or_dash(checked.kind),
            verdict,
        ]);
    }
    // Classes have no users.
    if list.iter().all(|it| it.used_by.is_none()) {
        for row in &mut rows {
            row.remove(1);
        }
    }
    text.push_str(&columns(&rows));
    text
}

fn workloads(report: &Report) -> String {
    let mut text = String::new();
    for workload in &report.workloads {
        text.push_str(&format!(
            "\n{} {}/{} ({})\n",
            workload.kind, workload.namespace, workload.name, workload.mode
        ));
        for flag in &workload.flags {
            text.push_str(&format!("  carries over: {flag}\n"));
        }
        for left_out in &workload.left_out {
            text.push_str(&format!(
                "  left out: {}: {}\n",
                left_out.flag, left_out.reason
            ));
        }
    }
    text
}

/// The instance alone; what goes with it is in the manifest.
fn instance(report: &Report) -> anyhow::Result<String> {
    let documents = report.manifest.iter();
    let documents = documents.filter(|document| document["kind"] == "CSIDriverDeployment");
    let documents: Vec<_> = documents.cloned().collect();
    Ok(format!(
        "\n# The instance; `--output manifest` prints all of weka.yaml.\n{}",
        yaml(&documents)?
    ))
}
