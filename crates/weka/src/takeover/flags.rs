//! What the flags of WEKA's plugin mean here: which carry over, and which do not.

use clap::{Arg, ArgMatches, Command, FromArgMatches};
use k8s_openapi::api::core::v1::Container;

use super::facts::Workload;
use super::report::{LeftOut, PluginWorkload};
use crate::args::Args;
use crate::config::{Config, FlagError};

/// Where both drivers look for the secret of requests without one.
pub(super) const LEGACY_DIRECTORY: &str = "/legacy-volume-access";

const DEFAULT_DRIVER: &str = "csi.weka.io";

/// Said by the instance itself, or by how the operator runs a driver.
const OF_INSTANCE: [&str; 8] = [
    "endpoint",
    "drivername",
    "nodeid",
    "csimode",
    "mode",
    "v",
    "version",
    "health-port",
];

/// What the plugin's server of figures has; here the controller does its work.
const OF_FIGURES: [&str; 3] = [
    "wekametrics",
    "fetchquotas",
    "enablemetricsserverleaderelection",
];

/// A flag as it was given, without its dashes.
#[derive(Debug, PartialEq, Eq)]
struct Given {
    name: String,
    value: Option<String>,
}

impl Given {
    fn as_typed(&self) -> String {
        let Self { name, value } = self;
        let value = value.as_ref().map(|value| format!("={value}"));
        format!("--{name}{}", value.unwrap_or_default())
    }
}

/// What the flags that carry over come to.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) config: Config,
    /// Why the driver would not start with them.
    pub(super) mistakes: Vec<String>,
}

impl Settings {
    /// Those of the controller, or of the node plugin where there is none.
    pub(super) fn of(workloads: &[PluginWorkload]) -> Self {
        let mut mistakes = Vec::new();
        let mut chosen = None;
        for workload in workloads {
            match config(&workload.flags) {
                Ok(config) if chosen.is_none() || workload.mode != "node" => chosen = Some(config),
                Ok(_) => {}
                Err(error) => mistakes.push(format!(
                    "{} `{}/{}`: the driver does not start with its flags: {error}",
                    workload.kind, workload.namespace, workload.name
                )),
            }
        }
        let config =
            chosen.unwrap_or_else(|| config(&[]).expect("the driver starts without flags"));
        Self { config, mistakes }
    }
}

/// The name of the driver that a container of the plugin runs.
pub(super) fn driver_name(container: &Container) -> String {
    let words = words(container);
    let flags = words.iter().filter_map(|word| split(word));
    let mut names = flags.filter(|(name, _)| *name == "drivername");
    let name = names.find_map(|(_, value)| value.map(str::to_owned));
    name.or_else(|| variable(container, "CSI_DRIVER_NAME"))
        .unwrap_or_else(|| DEFAULT_DRIVER.to_owned())
}

/// Sorts the flags of a workload of the plugin.
pub(super) fn carry(workload: &Workload, known: &Command) -> PluginWorkload {
    let given = workload
        .plugin()
        .map(|container| given(container, known))
        .unwrap_or_default();
    let mode = given
        .iter()
        .find(|flag| matches!(flag.name.as_str(), "csimode" | "mode"));
    let mode = mode.and_then(|flag| flag.value.clone());
    let mode = mode.or_else(|| variable(workload.plugin()?, "X_CSI_MODE"));
    let mode = mode.unwrap_or_else(|| "all".to_owned());
    let mut carried = Vec::new();
    let mut left_out = Vec::new();
    for flag in &given {
        let fate = fate(flag, &given, &mode, known);
        match fate {
            Fate::Carried(text) if carried.contains(&text) => {}
            Fate::Carried(text) => carried.push(text),
            Fate::Needless => {}
            Fate::LeftOut(reason) => left_out.push(LeftOut {
                flag: flag.as_typed(),
                reason,
            }),
        }
    }
    PluginWorkload {
        kind: workload.kind.as_str(),
        namespace: workload.namespace.clone(),
        name: workload.name.clone(),
        mode,
        flags: carried,
        left_out,
    }
}

enum Fate {
    Carried(String),
    /// It says what is so in any case.
    Needless,
    LeftOut(String),
}

fn fate(flag: &Given, all: &[Given], mode: &str, known: &Command) -> Fate {
    let name = flag.name.as_str();
    if OF_INSTANCE.contains(&name) {
        return Fate::Needless;
    }
    let Some(argument) = find(known, name) else {
        return Fate::LeftOut("this driver does not know it".to_owned());
    };
    if mode == "metricsserver" && !OF_FIGURES.iter().any(|begin| name.starts_with(begin)) {
        return Fate::Needless;
    }
    let text = written(flag, argument);
    if let Err(FlagError::Foreign(refusal)) = config(std::slice::from_ref(&text)) {
        return Fate::LeftOut(refusal.reason().to_owned());
    }
    let same = all.iter().filter(|other| other.name == flag.name);
    let values: Vec<_> = same.map(|flag| value(flag, argument)).collect();
    let defaults = argument.get_default_values().iter();
    let is_default = defaults.map(|it| it.to_string_lossy()).eq(values);
    if is_default {
        Fate::Needless
    } else {
        Fate::Carried(text)
    }
}

/// The flag as this driver's manifests write it.
fn written(flag: &Given, argument: &Arg) -> String {
    let name = argument.get_long().unwrap_or(&flag.name);
    match value(flag, argument) {
        value if is_switch(argument) && value == "true" => format!("--{name}"),
        value => format!("--{name}={value}"),
    }
}

/// Switches take every word that Go takes.
fn value(flag: &Given, argument: &Arg) -> String {
    let text = flag.value.as_deref();
    if !is_switch(argument) {
        return text.unwrap_or_default().to_owned();
    }
    let is_off = matches!(text, Some("0" | "f" | "F" | "false" | "FALSE" | "False"));
    (!is_off).to_string()
}

fn is_switch(argument: &Arg) -> bool {
    let values = argument.get_num_args();
    values.is_some_and(|values| values.min_values() == 0)
}

fn find<'a>(known: &'a Command, name: &str) -> Option<&'a Arg> {
    known.get_arguments().find(|argument| {
        argument.get_long() == Some(name)
            || argument
                .get_all_aliases()
                .is_some_and(|all| all.contains(&name))
    })
}

/// What the driver makes of flags, those left out that are not the driver's own but of any process.
fn config(flags: &[String]) -> Result<Config, FlagError> {
    let command = <Args as clap::Args>::augment_args(Command::new("weka"));
    let own = |flag: &&String| {
        let name = split(flag).map(|(name, _)| name);
        name.is_some_and(|name| find(&command, name).is_some())
    };
    let own: Vec<_> = flags.iter().filter(own).cloned().collect();
    let needed = ["weka", "--endpoint=unix:///csi/csi.sock", "--nodeid=node"];
    let words = needed.map(str::to_owned).into_iter().chain(own);
    let parsed = command.try_get_matches_from(words);
    let parsed = parsed.and_then(|matches: ArgMatches| Args::from_arg_matches(&matches));
    match parsed {
        Ok(args) => Config::try_from(args),
        Err(error) => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            Err(FlagError::Syntax(
                line.trim_start_matches("error: ").to_owned(),
            ))
        }
    }
}

fn given(container: &Container, known: &Command) -> Vec<Given> {
    let mut flags = Vec::new();
    let words = words(container);
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some((name, value)) = split(word) else {
            continue;
        };
        let takes_next = find(known, name).is_some_and(|argument| !is_switch(argument));
        let next = words.peek().filter(|next| split(next).is_none());
        let value = match (value, next) {
            (None, Some(next)) if takes_next => Some((*next).clone()),
            (value, _) => value.map(str::to_owned),
        };
        flags.push(Given {
            name: name.to_owned(),
            value,
        });
    }
    // The chart says it by a variable, too.
    if !flags.iter().any(|flag| flag.name == "dynamic-path") {
        flags.extend(variable(container, "CSI_DYNAMIC_PATH").map(|value| Given {
            name: "dynamic-path".to_owned(),
            value: Some(value),
        }));
    }
    flags
}

/// Command and arguments, with the container's variables in place of `$(NAME)`.
fn words(container: &Container) -> Vec<String> {
    let parts = [&container.command, &container.args];
    let words = parts.into_iter().flatten().flatten();
    let expand = |word: &String| {
        let variables = container.env.iter().flatten();
        variables.fold(word.clone(), |word, variable| match &variable.value {
            Some(value) => word.replace(&format!("$({})", variable.name), value),
            None => word,
        })
    };
    words.map(expand).collect()
}

fn variable(container: &Container, name: &str) -> Option<String> {
    let mut variables = container.env.iter().flatten();
    let found = variables.find(|variable| variable.name == name)?;
    found.value.clone()
}

/// Name and value of a flag with one dash or two.
fn split(word: &str) -> Option<(&str, Option<&str>)> {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    match name.split_once('=') {
        Some((name, value)) => Some((name, Some(value))),
        None => Some((name, None)),
    }
}
