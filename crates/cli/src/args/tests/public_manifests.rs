//! The arguments that public charts and manifests give to the Go sidecars, in `public_manifests.yaml`: each list by itself, all lists of a pod
//! one after the other as whoever replaces the sidecars writes them, with one dash and with two.

use std::collections::{BTreeMap, BTreeSet};

use clap::{CommandFactory as _, Parser as _};
use serde::Deserialize;

use crate::args::{Args, Command, Sidecar, SidecarControllerArgs, SidecarNodeArgs};
use crate::original;

const LISTS: &str = include_str!("public_manifests.yaml");

/// Flags of the current binaries, also those that no manifest carries: what all of them have of klog and of Kubernetes' logging,
const KLOG: &str = "--add_dir_header --alsologtostderr --alsologtostderrthreshold=2 --legacy_stderr_threshold_behavior=true \
    --log_backtrace_at=x.go:1 --log_dir=/tmp --log_file=/tmp/x --log_file_max_size=1 --logtostderr=true --one_output \
    --skip_headers --skip_log_headers --stderrthreshold=INFO --vmodule=x=5 -v=5 --logging-format=json \
    --log-flush-frequency=5s --log-json-info-buffer-size=0 --log-json-split-stream --log-text-info-buffer-size=0 \
    --log-text-split-stream ";

/// what several have,
const COMMON: &str = "--master=https://10.0.0.1:6443 --kubeconfig= --csi-address=/csi/csi.sock --retry-interval-start=1s \
    --retry-interval-max=5m --leader-election --leader-election-namespace=x --leader-election-lease-duration=15s \
    --leader-election-renew-deadline=10s --leader-election-retry-period=5s --leader-election-labels=a:b,c:d \
    --kube-api-qps=5 --kube-api-burst=10 --http-endpoint=:8080 --metrics-path=/metrics --automaxprocs \
    --feature-gates=Topology=true --enable-pprof --timeout=10s --worker-threads=10 --default-fstype=ext4 ";

/// what provisioner, attacher, resizer, snapshotter and livenessprobe each have, and three old ones.
const OWN: &str = "--volume-name-prefix=pvc --volume-name-uuid-length=-1 --cloning-protection-threads=1 \
    --capacity-threads=1 --strict-topology --immediate-topology=true --extra-create-metadata --enable-capacity=false \
    --capacity-for-immediate-binding --capacity-poll-interval=1m --capacity-ownerref-level=1 --kube-api-capacity-qps=1 \
    --kube-api-capacity-burst=5 --node-deployment=false --node-deployment-immediate-binding \
    --node-deployment-base-delay=20s --node-deployment-max-delay=60s --controller-publish-readonly \
    --prevent-volume-mode-conversion --snapshot-orphan-sweep-interval=5m \
    --resync=10m --max-entries=0 --reconcile-sync=1m --max-grpc-log-length=-1 \
    --resync-period=10m --workers=10 --handle-volume-inuse-error --extra-modify-metadata \
    --snapshot-name-prefix=snapshot --snapshot-name-uuid-length=-1 --groupsnapshot-name-prefix=groupsnapshot \
    --groupsnapshot-name-uuid-length=-1 --probe-timeout=3s --health-port=9808 --metrics-address=:8081 \
    --connection-timeout=15s --csiTimeout=10s --leader-election-type=leases";

/// One manifest: its sidecars and their arguments.
#[derive(Deserialize)]
struct Manifest {
    source: String,
    #[serde(flatten)]
    sidecars: BTreeMap<String, Vec<String>>,
}

fn manifests() -> Vec<Manifest> {
    serde_saphyr::from_str(LISTS).unwrap()
}

fn parse(words: &[&str]) -> Result<Command, clap::Error> {
    let line = ["stowage"].iter().chain(words).map(Into::into);
    Args::try_parse_from(original::arguments(line)).map(|args| args.command)
}

fn controller(words: &[&str]) -> Box<SidecarControllerArgs> {
    let line = [&["sidecar", "controller"], words].concat();
    match parse(&line) {
        Ok(Command::Sidecar(Sidecar::Controller(args))) => args,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn node(words: &[&str]) -> Box<SidecarNodeArgs> {
    let path = "--kubelet-registration-path=/plugins/x/csi.sock";
    let line = [&["sidecar", "node", path], words].concat();
    match parse(&line) {
        Ok(Command::Sidecar(Sidecar::Node(args))) => args,
        other => panic!("{words:?}: {other:?}"),
    }
}

/// The subcommands that take the place of a sidecar.
fn in_place_of(sidecar: &str) -> &'static [&'static [&'static str]] {
    const CONTROLLER: &[&str] = &["sidecar", "controller"];
    const NODE: &[&str] = &["sidecar", "node"];
    const PROBED: &[&str] = &[
        "sidecar",
        "node",
        "--kubelet-registration-path=/plugins/x/csi.sock",
    ];
    match sidecar {
        "node-driver-registrar" => &[NODE],
        "livenessprobe" => &[CONTROLLER, PROBED],
        "snapshot-controller" => &[&["snapshot-controller"]],
        "csi-provisioner" | "csi-attacher" | "csi-resizer" | "csi-snapshotter" => &[CONTROLLER],
        other => panic!("`{other}` is not a sidecar"),
    }
}

/// With one dash before every name, as Go's `flag` takes them too.
fn one_dash(words: &[&str]) -> Vec<String> {
    let short = |word: &&str| format!("-{}", word.trim_start_matches('-'));
    words.iter().map(short).collect()
}

#[test]
fn every_list_is_taken_by_itself_with_one_dash_and_with_two() {
    let mut seen = 0;
    for Manifest { source, sidecars } in manifests() {
        for (sidecar, list) in &sidecars {
            let list: Vec<&str> = list.iter().map(String::as_str).collect();
            let short = one_dash(&list);
            let short = short.iter().map(String::as_str).collect();
            for words in [list, short] {
                for subcommand in in_place_of(sidecar) {
                    let taken = parse(&[subcommand, words.as_slice()].concat());
                    assert!(taken.is_ok(), "{source}, {sidecar}: {taken:?}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 120, "only {seen} lists were found");
}

#[test]
fn gates_of_one_sidecar_do_not_take_back_those_of_another() {
    let args = controller(&[
        "--feature-gates=Topology=false",
        "--feature-gates=CSIVolumeGroupSnapshot=true",
    ]);
    let gates = args.controller.roles.provision.feature_gates;
    assert_eq!(gates, ["Topology=false", "CSIVolumeGroupSnapshot=true"]);
}

#[test]
fn all_lists_of_a_pod_are_taken_one_after_the_other_and_the_last_value_counts() {
    for Manifest { source, sidecars } in manifests() {
        let lists_of = |wanted: &[&str]| -> Vec<&str> {
            let wanted = wanted.iter().filter_map(|name| sidecars.get(*name));
            wanted.flatten().map(String::as_str).collect()
        };
        let node_only = ["node-driver-registrar", "livenessprobe"];
        let words = if sidecars.contains_key("node-driver-registrar") {
            [&["sidecar", "node"], lists_of(&node_only).as_slice()].concat()
        } else {
            let all = [
                "csi-provisioner",
                "csi-attacher",
                "csi-resizer",
                "csi-snapshotter",
                "livenessprobe",
            ];
            [&["sidecar", "controller"], lists_of(&all).as_slice()].concat()
        };
        let taken = parse(&words);
        assert!(taken.is_ok(), "{source}: {taken:?}");
    }
    let args = controller(&[
        "--timeout=60s",
        "-timeout",
        "90s",
        "--leader-election=false",
        "-leader-election",
    ]);
    assert_eq!(args.controller.timeout.unwrap().as_secs(), 90);
    assert!(args.controller.lease.leader_election);
}

#[test]
fn a_flag_without_meaning_swallows_its_own_value_and_nothing_else() {
    let words = [
        "-kube-api-qps",
        "100",
        "--capacity-threads",
        "1",
        "-logtostderr",
        "--extra-create-metadata",
    ];
    assert!(
        controller(&words)
            .controller
            .roles
            .provision
            .extra_create_metadata
    );
    assert!(parse(&["sidecar", "controller", "--no-such-flag"]).is_err());
}

#[test]
fn every_flag_of_the_current_sidecars_is_taken() {
    let all = [KLOG, COMMON, OWN].concat();
    let all: Vec<&str> = all.split_whitespace().collect();
    controller(&all);
    node(
        &[
            all.as_slice(),
            &["--mode=", "--plugin-registration-path=/registration"],
        ]
        .concat(),
    );
    let klog: Vec<&str> = KLOG.split_whitespace().collect();
    let own = [
        "--resync-period=15m",
        "--retry-crd-interval-max=30s",
        "--kube-api-qps",
        "5",
        "--worker-threads=10",
    ];
    parse(&[&["snapshot-controller"], klog.as_slice(), &own].concat()).unwrap();
}

#[test]
fn a_role_has_its_own_value_where_the_sidecars_had_different_ones() {
    let roles = ["provisioner", "attacher", "resizer", "snapshotter"];
    for role in roles {
        for flag in [
            "timeout=3m",
            "worker-threads=7",
            "retry-interval-start=500ms",
            "retry-interval-max=1m",
        ] {
            controller(&[&format!("--{role}-{flag}")]);
        }
    }
    let args = controller(&[
        "--extra-create-metadata",
        "--snapshotter-extra-create-metadata=false",
    ]);
    assert_eq!(
        args.controller
            .roles
            .snapshots
            .snapshotter_extra_create_metadata,
        Some(false)
    );
}

#[test]
fn no_port_is_opened_that_no_flag_asks_for() {
    assert_eq!(controller(&[]).controller.liveness.health_port, None);
    assert_eq!(node(&[]).node.liveness.health_port, None);
}

/// What is said about each flag in the guides is all there is, and all of it is said.
#[test]
fn the_guides_say_what_each_flag_does() {
    let guide = |name: &str| {
        std::fs::read_to_string(super::project().join("docs/guides").join(name)).unwrap()
    };
    let said: BTreeSet<String> = [guide("sidecar-flags.md")]
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.strip_prefix("| `--")?.split_once('`'))
        .map(|(flag, _)| flag.to_owned())
        .collect();
    let mut command = Args::command();
    command.build();
    let sidecar = command.find_subcommand("sidecar").unwrap();
    let there: BTreeSet<String> = ["controller", "node"]
        .iter()
        .flat_map(|role| sidecar.find_subcommand(role).unwrap().get_arguments())
        .flat_map(|flag| {
            [
                flag.get_long().map(|name| vec![name]),
                flag.get_all_aliases(),
            ]
        })
        .flatten()
        .flatten()
        .map(ToOwned::to_owned)
        .collect();
    let missing: Vec<_> = there.difference(&said).collect();
    let gone: Vec<_> = said.difference(&there).collect();
    assert_eq!(
        (missing.as_slice(), gone.as_slice()),
        ([].as_slice(), [].as_slice())
    );
}
