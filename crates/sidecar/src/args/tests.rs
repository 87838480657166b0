use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: RoleArgs,
}

fn parse(words: &[&str]) -> RoleArgs {
    let words = ["sidecar"].iter().chain(words);
    Command::try_parse_from(words).unwrap().args
}

fn refused(words: &[&str], per_node: bool) -> String {
    let settings = parse(words).settings(None, per_node);
    settings.unwrap_err().to_string()
}

#[test]
fn defaults_are_upstreams() {
    let settings = parse(&[]).settings(None, false).unwrap();
    let provision = &settings.provision;
    let pauses = Backoff {
        first: Duration::from_secs(1),
        longest: Duration::from_secs(300),
    };
    assert_eq!(provision.retry, pauses);
    assert_eq!(settings.resize.retry, pauses);
    assert_eq!((provision.workers, provision.timeout.as_secs()), (100, 10));
    assert_eq!(provision.naming.name("0-1"), "pvc-0-1");
    assert!(provision.immediate_topology && provision.keep_volume_mode);
    assert!(!provision.strict_topology && !provision.extra_metadata);
    assert!(!provision.publish_read_only);
    let attach = &settings.attach;
    assert_eq!((attach.workers, attach.timeout.as_secs()), (10, 15));
    assert!(settings.own_node.is_none());
}

#[test]
fn a_flag_of_all_roles_counts_for_each_that_has_none_of_its_own() {
    let words = [
        "--worker-threads=7",
        "--attacher-worker-threads=3",
        "--provisioner-timeout=4s",
    ];
    let settings = parse(&words).settings(Some(Duration::from_secs(60)), false);
    let settings = settings.unwrap();
    assert_eq!(
        (settings.provision.workers, settings.attach.workers),
        (7, 3)
    );
    assert_eq!(settings.provision.timeout.as_secs(), 4);
    assert_eq!(settings.attach.timeout.as_secs(), 60);
}

#[test]
fn flags_of_go_manifests_are_taken_and_mean_nothing() {
    let words = [
        "--kube-api-qps=100",
        "--kube-api-burst",
        "200",
        "--feature-gates=Topology=true",
        "--resync=10m",
        "--capacity-threads=1",
        "--extra-create-metadata",
        "--strict-topology=true",
    ];
    let settings = parse(&words).settings(None, false).unwrap();
    assert!(settings.provision.strict_topology);
    assert!(settings.provision.extra_metadata);
}

#[test]
fn pauses_and_metadata_can_differ_by_role() {
    let words = [
        "--retry-interval-start=2s",
        "--attacher-retry-interval-start=500ms",
        "--resizer-retry-interval-max=1s",
        "--extra-create-metadata",
        "--snapshotter-extra-create-metadata=false",
    ];
    let settings = parse(&words).settings(None, false).unwrap();
    let millis = |retry: Backoff| (retry.first.as_millis(), retry.longest.as_millis());
    assert_eq!(millis(settings.provision.retry), (2000, 300_000));
    assert_eq!(millis(settings.attach.retry), (500, 300_000));
    assert_eq!(millis(settings.resize.retry), (1000, 1000));
    assert!(settings.provision.extra_metadata);
    assert_eq!(settings.snapshots.extra_metadata, Some(false));
}

#[test]
fn what_means_nothing_is_refused_with_the_flag() {
    for (words, flag) in [
        (&["--volume-name-prefix="][..], "--volume-name-prefix"),
        (
            &["--volume-name-uuid-length=0"],
            "--volume-name-uuid-length is 0",
        ),
        (
            &["--volume-name-uuid-length=33"],
            "--volume-name-uuid-length is 33",
        ),
        (&["--retry-interval-start=0s"], "--retry-interval-start"),
        (
            &["--retry-interval-start=2s", "--retry-interval-max=1s"],
            "--retry-interval-max",
        ),
        (
            &["--attacher-retry-interval-start=0s"],
            "--attacher-retry-interval-start",
        ),
    ] {
        let said = refused(words, false);
        assert!(said.contains(flag), "{said}");
    }
    assert!(refused(&["--node-name="], true).contains("NODE_NAME"));
}

#[test]
fn a_controller_per_node_knows_its_node() {
    let words = ["--node-name=n", "--node-deployment-immediate-binding=false"];
    let own = parse(&words)
        .settings(None, true)
        .unwrap()
        .own_node
        .unwrap();
    assert_eq!((own.name.as_str(), own.immediate), ("n", None));
    let own = parse(&["--node-name=n"])
        .settings(None, true)
        .unwrap()
        .own_node
        .unwrap();
    let delays = (Duration::from_secs(20), Duration::from_secs(60));
    assert_eq!(own.immediate, Some(delays));
}

#[test]
fn topology_is_on_unless_its_gate_says_otherwise() {
    let topology = |words: &[&str]| {
        parse(words)
            .settings(None, false)
            .unwrap()
            .provision
            .topology
    };
    for (words, expected) in [
        (&[][..], true),
        (&["--feature-gates=Topology=false"], false),
        (&["--feature-gates=Topology=False"], false),
        (&["--feature-gates=Topology=true"], true),
        (&["--feature-gates", "Topology=0"], false),
        (&["--feature-gates=A=false,Topology=f, B=true"], false),
        (
            &["--feature-gates=Topology=false", "--feature-gates=B=true"],
            false,
        ),
        (
            &[
                "--feature-gates=Topology=false",
                "--feature-gates=Topology=true",
            ],
            true,
        ),
        (&["--feature-gates="], true),
        (&["--feature-gates=CSIVolumeGroupSnapshot=true"], true),
    ] {
        assert_eq!(topology(words), expected, "{words:?}");
    }
    let said = refused(&["--feature-gates=Topology=maybe"], false);
    assert!(said.contains("Topology=maybe"), "{said}");
}
