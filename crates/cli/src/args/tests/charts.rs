//! Whatever our charts render starts: each container with our image gets a command line that this program takes, and each with the image
//! of WEKA's driver one that WEKA's driver takes, which is one of ours, too.

use std::collections::BTreeSet;

use clap::{CommandFactory, Parser};
use serde_json::{Value, json};
use stowage_chart::chart::Chart;
use stowage_chart::from_yaml;
use stowage_chart::manifest::Manifest;
use stowage_chart::render::{Identity, no_cluster, render};

use super::project;
use crate::args::Args;
use crate::original;

/// As a person names the image of WEKA's driver.
const OF_WEKA: &str = "example.com/csi-wekafs";

/// All drivers as they are by themselves, and with everything that puts a flag on a command line.
fn values() -> [Value; 4] {
    let usual = json!({
        "wekaClients": {"enabled": true}, "snapshotController": {"enabled": true},
        "drivers": {"hostpath": {"enabled": true}, "weka": {"enabled": true}, "vpsa": {"enabled": true}},
    });
    let mut other = usual.clone();
    other["operator"] =
        json!({"draining": true, "startupTaint": true, "secretsOfAllNamespaces": true});
    other["drivers"] = json!({
        "hostpath": {"enabled": true, "layout": "everyNode", "csiDriverName": "other.example", "stateDirectory": "/srv/x"},
        "weka": everything_of_weka(),
        "vpsa": {
            "enabled": true, "importExisting": false, "emptyRecycleBin": true, "topologyKeys": ["example.com/rack", "example.com/row"],
            "iscsiRecords": "/var/lib/iscsi/nodes",
            "vpsa": {"monitorInterval": "20s", "requestTimeout": "1m30s"},
            "plugin": {
                "allocator": "mostAvailableCapacity", "storageNetwork": "10.1.0.0/16", "logLevelOverride": "warning",
                "logFormat": "json", "stonith": {"enable": true, "probeTimeout": "2m"},
            },
        },
    });
    let mut theirs = other.clone();
    theirs["drivers"]["weka"]["images"] = json!({"csidriver": OF_WEKA, "csidriverTag": "v2.8.8"});
    theirs["drivers"]["weka"]["selinuxSupport"] = json!("enforced");
    let mut plain_of_theirs = usual.clone();
    plain_of_theirs["drivers"]["weka"]["images"] = json!({"csidriver": OF_WEKA});
    [usual, other, theirs, plain_of_theirs]
}

fn everything_of_weka() -> Value {
    json!({
        "enabled": true, "csiDriverName": "other.weka.io", "dynamicProvisionPath": "k8s/volumes",
        "earlierDynamicProvisionPaths": ["csi-volumes", "older"], "legacyVolumeSecretName": "legacy",
        "selinuxSupport": "mixed", "hostNetwork": true, "logLevel": 6, "useJsonLogging": true,
        "controller": {"maxConcurrentRequests": 3, "grpcRequestTimeoutSeconds": 60},
        "node": {"maxConcurrentRequests": 3, "grpcRequestTimeoutSeconds": 60, "livenessProbeEnabled": false},
        "metrics": {"enabled": true, "backfillMissingQuotas": true},
        "pluginConfig": {
            "fsGroupPolicy": "None", "allowInsecureHttps": true, "skipGarbageCollection": true, "waitForObjectDeletion": true,
            "setOwnershipOnDynamicFilesystems": true, "allowMountOptionOverrides": true,
            "objectNaming": {"volumePrefix": "vol-", "snapshotPrefix": "snp-", "seedSnapshotPrefix": "seed-"},
            "allowedOperations": {
                "snapshotDirectoryVolumes": true, "snapshotVolumesWithoutQuotaEnforcement": true,
                "enforceDirVolTotalCapacity": true, "keepThinProvisioningRatioOnExpand": false,
            },
            "mutuallyExclusiveMountOptions": ["readcache,writecache,coherent,forcedirect", "sync,async"],
            "encryption": {"allowEncryptionWithoutKms": true},
            "mountProtocol": {
                "useNfs": true, "allowNfsFailback": true, "interfaceGroupName": "group", "clientGroupName": "clients",
                "nfsProtocolVersion": "4.2", "wekafsContainerName": "client",
            },
        },
    })
}

/// All containers below, those of instances in ConfigMaps included.
fn containers<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_array() {
                    Some(all) if name == "containers" || name == "initContainers" => {
                        found.extend(all);
                    }
                    _ => containers(field, found),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|one| containers(one, found)),
        _ => {}
    }
}

/// What a chart comes to, hooks too, with each instance in place of the text that holds it.
fn objects(name: &str, own: &Value) -> Vec<Value> {
    let chart = Chart::load(&project().join("charts").join(name)).unwrap();
    let rendered = render(&chart, own, &Identity::new("here", "mine"), no_cluster());
    let manifest = Manifest::of(&rendered.unwrap()).unwrap();
    let opened = manifest.all().into_iter().map(|object| {
        let instance = object["data"]["instance.yaml"].as_str();
        instance.map_or_else(|| object.clone(), |text| from_yaml(text).unwrap())
    });
    opened.collect()
}

/// A container's command line as its kubelet gives it to the program of its image; nothing for images of others.
fn line(container: &Value) -> Option<Vec<String>> {
    let image = container["image"].as_str().unwrap_or_default();
    let program = if image.starts_with(OF_WEKA) {
        "/wekafsplugin"
    } else if image.starts_with("stowage.dev/stowage:") {
        "/stowage"
    } else {
        return None;
    };
    let arguments = container["args"].as_array().into_iter().flatten();
    // Variables that a pod gets by its place: any word will do.
    let arguments = arguments.map(|it| {
        let word = it.as_str().unwrap();
        match word.split_once("$(") {
            Some((before, after)) => {
                format!("{before}value{}", after.split_once(')').unwrap().1)
            }
            None => word.to_owned(),
        }
    });
    Some([program.to_owned()].into_iter().chain(arguments).collect())
}

/// The flags that a container has by its environment. Given as flags here: the environment of a test is that of all tests.
fn flags_by_environment(container: &Value, line: &[String]) -> Vec<String> {
    let mut command = Args::command();
    command.build();
    let mut command = &command;
    for word in line.iter().skip(1) {
        let Some(next) = command.find_subcommand(word) else {
            break;
        };
        command = next;
    }
    let variables = container["env"].as_array().into_iter().flatten();
    let flags = variables.filter_map(|variable| {
        let name = variable["name"].as_str()?;
        let mut flags = command.get_arguments();
        let flag = flags.find(|it| it.get_env().is_some_and(|env| env == name))?;
        let flag = format!("--{}", flag.get_long()?);
        let is_there = line.iter().any(|it| it.split('=').next() == Some(&flag));
        let is_address = variable["valueFrom"]["fieldRef"]["fieldPath"] == "status.hostIP";
        let value = if is_address { "10.0.0.1" } else { "value" };
        (!is_there).then(|| format!("{flag}={value}"))
    });
    flags.collect()
}

#[test]
fn every_container_of_the_charts_is_started_with_flags_that_its_program_has() {
    let mut cases: Vec<_> = values().into_iter().map(|own| ("stowage", own)).collect();
    let mut of_upstream = everything_of_weka();
    of_upstream.as_object_mut().unwrap().remove("enabled");
    cases.extend([json!({}), of_upstream].map(|own| ("csi-wekafsplugin", own)));
    let mut begins = BTreeSet::new();
    for (chart, own) in &cases {
        let objects = objects(chart, own);
        let mut found = Vec::new();
        for object in &objects {
            containers(object, &mut found);
        }
        for container in found {
            let Some(line) = line(container) else {
                continue;
            };
            let more = flags_by_environment(container, &line);
            let words = original::arguments(line.iter().chain(&more).map(Into::into));
            if let Err(error) = Args::try_parse_from(words) {
                panic!("{chart}, with {own}: {line:?}: {error}");
            }
            let words = line.iter().take_while(|it| !it.starts_with('-'));
            begins.insert(words.map(String::as_str).collect::<Vec<_>>().join(" "));
        }
    }
    // Nothing was left out.
    let all = [
        "/stowage driver hostpath",
        "/stowage driver vpsa",
        "/stowage driver weka",
        "/stowage operator",
        "/stowage setup definitions",
        "/stowage setup instances",
        "/stowage setup remove",
        "/stowage snapshot-controller",
        "/wekafsplugin",
    ];
    assert_eq!(begins, all.map(ToOwned::to_owned).into());
}
