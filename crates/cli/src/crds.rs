//! `stowage crds`: custom resource definitions as YAML documents, or as a page that explains their fields; and what servers that can
//! should check beside them.

mod reference;

use std::fmt::Write;

use anyhow::Context;
use clap::ValueEnum;
use stowage_api::CrdGroup;
use stowage_api::driver_deployment::validation;

use crate::args::{CrdsArgs, CrdsGroup};

/// What to print. Groups come in a fixed order, each once, however they were asked for.
pub fn render(args: &CrdsArgs) -> anyhow::Result<String> {
    let mut text = String::new();
    if args.validation {
        writeln!(text, "# Printed by `{}`: do not edit.", command(args))?;
        writeln!(
            text,
            "# For Kubernetes 1.30 and later: mistakes are refused when they are written."
        )?;
        for document in validation::manifest() {
            write!(text, "---\n{}", serde_saphyr::to_string(&document)?)?;
        }
        return Ok(text);
    }
    for group in CrdGroup::ALL {
        let name = CrdsGroup::from(group);
        if !args.groups.is_empty() && !args.groups.contains(&name) {
            continue;
        }
        for crd in group.crds() {
            if args.reference {
                if text.is_empty() {
                    let command = command(args);
                    writeln!(
                        text,
                        "# Custom resources\n\nPrinted by `{command}`: do not edit."
                    )?;
                }
                text.push_str(&reference::section(&crd));
                continue;
            }
            let yaml = serde_saphyr::to_string(&crd)
                .with_context(|| format!("cannot write {} as YAML", crd.spec.names.kind))?;
            if text.is_empty() {
                writeln!(text, "# Printed by `{}`: do not edit.", command(args))?;
            }
            write!(text, "---\n{yaml}")?;
        }
    }
    Ok(text)
}

/// The command line that prints the same again.
fn command(args: &CrdsArgs) -> String {
    let mut command = String::from("stowage crds");
    for group in &args.groups {
        if let Some(value) = group.to_possible_value() {
            command.push_str(" --group ");
            command.push_str(value.get_name());
        }
    }
    for (is_set, flag) in [
        (args.reference, " --reference"),
        (args.validation, " --validation"),
    ] {
        if is_set {
            command.push_str(flag);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    use super::*;

    fn yaml(groups: Vec<CrdsGroup>) -> CrdsArgs {
        CrdsArgs {
            groups,
            reference: false,
            validation: false,
        }
    }

    fn parsed(groups: Vec<CrdsGroup>) -> Vec<CustomResourceDefinition> {
        serde_saphyr::from_multiple(&render(&yaml(groups)).unwrap()).unwrap()
    }

    #[test]
    fn yaml_says_what_the_definitions_say() {
        assert_eq!(parsed(vec![]), stowage_api::crds());
    }

    #[test]
    fn groups_are_printed_once_and_in_order() {
        let asked = vec![
            CrdsGroup::Weka,
            CrdsGroup::Vpsa,
            CrdsGroup::GroupSnapshots,
            CrdsGroup::Snapshots,
            CrdsGroup::Snapshots,
            CrdsGroup::DriverDeployments,
        ];
        assert_eq!(parsed(asked), stowage_api::crds());
        assert_eq!(
            parsed(vec![CrdsGroup::GroupSnapshots]),
            CrdGroup::GroupSnapshots.crds()
        );
    }

    #[test]
    fn the_first_line_names_the_command() {
        let text = render(&yaml(vec![CrdsGroup::GroupSnapshots])).unwrap();
        assert_eq!(
            text.lines().next(),
            Some("# Printed by `stowage crds --group group-snapshots`: do not edit.")
        );
    }
}
