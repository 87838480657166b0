//! A report as text. Pure.
//!
//! Two shapes with the same content: tables, and a list for terminals that are too narrow for them.
//! Names are never cut, so that they can be copied; in the list a single long name may be wider than
//! the terminal, which then wraps it.

use super::report::{Driver, NodeState, Ready, Report};
use crate::layout::{columns, printable, wrap};

const NO_OBJECT: &str = "* has no CSIDriver object: Kubernetes assumes what is shown here.";

/// Draws `report` for a terminal of `width` columns, or as wide as it gets where there is no terminal.
pub fn draw(report: &Report, width: Option<usize>) -> String {
    let width = width.unwrap_or(usize::MAX);
    let tables = tables(report);
    let text = if tables.lines().all(|line| line.chars().count() <= width) {
        tables
    } else {
        list(report, width)
    };
    printable(&text)
}

fn headline(report: &Report) -> String {
    let count = |number: usize, thing: &str| {
        let plural = if number == 1 { "" } else { "s" };
        format!("{number} {thing}{plural}")
    };
    let unready = report
        .nodes
        .iter()
        .filter(|node| node.ready != Ready::Yes)
        .count();
    let mut line = format!(
        "Kubernetes {}, {}, {}",
        report.server_version,
        count(report.drivers.len(), "CSI driver"),
        count(report.nodes.len(), "node")
    );
    if unready > 0 {
        line.push_str(&format!(" ({unready} not ready)"));
    }
    line
}

fn driver_name(driver: &Driver) -> String {
    let mark = if driver.csi_driver_object { "" } else { " *" };
    format!("{}{mark}", driver.name)
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

fn readiness(ready: Ready) -> &'static str {
    match ready {
        Ready::Yes => "yes",
        Ready::No => "no",
        Ready::Unknown => "unknown",
        Ready::Gone => "gone",
    }
}

/// Registered nodes among those that exist.
fn coverage(driver: &Driver, report: &Report) -> String {
    let exists = |node: &&NodeState| node.ready != Ready::Gone;
    let total = report.nodes.iter().filter(exists).count();
    let covered = report
        .nodes
        .iter()
        .filter(exists)
        .filter(|node| node.drivers.contains(&driver.name))
        .count();
    format!("{covered}/{total}")
}

fn has_footnote(report: &Report) -> bool {
    report
        .drivers
        .iter()
        .any(|driver| !driver.csi_driver_object)
}

fn tables(report: &Report) -> String {
    let mut text = headline(report) + "\n";
    if !report.drivers.is_empty() {
        let head = [
            "DRIVER",
            "ATTACH",
            "MODES",
            "STORAGE CLASSES",
            "VOLUMES",
            "NODES",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(report.drivers.iter().map(|driver| {
            vec![
                driver_name(driver),
                yes_or_no(driver.attach_required),
                join_or_dash(&driver.modes, ","),
                join_or_dash(&driver.storage_classes, ","),
                driver.persistent_volumes.to_string(),
                coverage(driver, report),
            ]
        }));
        text.push('\n');
        text.push_str(&columns(&rows));
        if has_footnote(report) {
            text.push_str(NO_OBJECT);
            text.push('\n');
        }
    }
    if !report.nodes.is_empty() {
        let mut head = vec!["NODE".to_owned(), "READY".to_owned()];
        head.extend(report.drivers.iter().map(|driver| driver.name.clone()));
        let mut rows = vec![head];
        rows.extend(report.nodes.iter().map(|node| {
            let mut row = vec![node.name.clone(), readiness(node.ready).to_owned()];
            row.extend(report.drivers.iter().map(|driver| {
                let registered = node.drivers.contains(&driver.name);
                if registered { "yes" } else { "-" }.to_owned()
            }));
            row
        }));
        text.push('\n');
        text.push_str(&columns(&rows));
    }
    text
}

fn join_or_dash(items: &[String], separator: &str) -> String {
    if items.is_empty() {
        "-".to_owned()
    } else {
        items.join(separator)
    }
}

fn list(report: &Report, width: usize) -> String {
    let mut text = wrap("", &headline(report), width);
    for driver in &report.drivers {
        text.push('\n');
        text.push_str(&wrap("", &driver_name(driver), width));
        for (label, value) in [
            ("attach", yes_or_no(driver.attach_required)),
            ("modes", join_or_dash(&driver.modes, ", ")),
            ("classes", join_or_dash(&driver.storage_classes, ", ")),
            ("volumes", driver.persistent_volumes.to_string()),
            ("nodes", coverage(driver, report)),
        ] {
            text.push_str(&wrap(&format!("  {label:<7}  "), &value, width));
        }
    }
    if has_footnote(report) {
        text.push('\n');
        text.push_str(&wrap("", NO_OBJECT, width));
    }
    for node in &report.nodes {
        text.push('\n');
        text.push_str(&wrap("", &node.name, width));
        text.push_str(&wrap("  ready    ", readiness(node.ready), width));
        text.push_str(&wrap(
            "  drivers  ",
            &join_or_dash(&node.drivers, ", "),
            width,
        ));
    }
    text
}
