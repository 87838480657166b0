//! `stowage crds`: custom resource definitions as YAML documents.

use std::fmt::Write;

use anyhow::Context;
use clap::ValueEnum;
use stowage_api::CrdGroup;

use crate::args::{CrdsArgs, CrdsGroup};

/// The YAML to print. Groups come in a fixed order, each once, however they were asked for.
pub fn render(args: &CrdsArgs) -> anyhow::Result<String> {
    let mut text = String::new();
    for group in CrdGroup::ALL {
        let name = CrdsGroup::from(group);
        if !args.groups.is_empty() && !args.groups.contains(&name) {
            continue;
        }
        for crd in group.crds() {
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
    command
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    use super::*;

    fn parsed(groups: Vec<CrdsGroup>) -> Vec<CustomResourceDefinition> {
        serde_saphyr::from_multiple(&render(&CrdsArgs { groups }).unwrap()).unwrap()
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
        let text = render(&CrdsArgs {
            groups: vec![CrdsGroup::GroupSnapshots],
        })
        .unwrap();
        assert_eq!(
            text.lines().next(),
            Some("# Printed by `stowage crds --group group-snapshots`: do not edit.")
        );
    }
}
