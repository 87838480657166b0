//! The command lines that the Helm chart of WEKA's plugin renders, for its controller and its nodes, as they are.

use clap::Parser;

use crate::args::{Args, Command, Driver, WekaArgs};
use crate::original;

/// With the chart's own values; variables are those that it sets.
const CONTROLLER: &str = "--drivername=csi.weka.io --v=5 --endpoint=unix:///csi/csi.sock --nodeid=node-1 \
    --dynamic-path=csi-volumes --csimode=controller --newvolumeprefix=csivol- --newsnapshotprefix=csisnp- \
    --seedsnapshotprefix=csisnp-seed- --allowautofscreation --allowautofsexpansion --enablemetrics --metricsport=9090 \
    --mutuallyexclusivemountoptions=readcache,writecache,coherent,forcedirect --mutuallyexclusivemountoptions=sync,async \
    --mutuallyexclusivemountoptions=ro,rw --grpcrequesttimeoutseconds=30 --healthprobewekatimeoutseconds=5 \
    --concurrency.createVolume=5 --concurrency.deleteVolume=5 --concurrency.expandVolume=5 \
    --concurrency.createSnapshot=5 --concurrency.deleteSnapshot=5 --keepthinprovisioningratioonexpand=true \
    --nfsprotocolversion=4.1";
const NODE: &str = "--v=5 --drivername=csi.weka.io --endpoint=unix:///csi/csi.sock --nodeid=node-1 \
    --dynamic-path=csi-volumes --csimode=node --newvolumeprefix=csivol- --newsnapshotprefix=csisnp- \
    --seedsnapshotprefix=csisnp-seed- --enablemetrics --metricsport=9094 \
    --mutuallyexclusivemountoptions=readcache,writecache,coherent,forcedirect --mutuallyexclusivemountoptions=sync,async \
    --mutuallyexclusivemountoptions=ro,rw --grpcrequesttimeoutseconds=30 --healthprobewekatimeoutseconds=5 \
    --concurrency.nodePublishVolume=5 --concurrency.nodeUnpublishVolume=5 --nfsprotocolversion=4.1 \
    --managenodetopologylabels";

/// What the chart adds where each of its values is switched on.
const EVERYTHING: &str = "--allowsnapshotsoflegacyvolumes --alwaysallowsnapshotvolumes --tracingurl=jaeger:4317 \
    --allowinsecurehttps --usejsonlogging --enforcedirvoltotalcapacity --advertisevolumehealthsupport=true --usenfs \
    --allownfsfailback --interfacegroupname=group --clientgroupname=clients --wekafscontainername=client \
    --skipgarbagecollection --waitforobjectdeletion --allowencryptionwithoutkms --setownershipondynamicfilesystems \
    --selinux-support --allowmountoptionoverrides --wekaapitimeoutseconds=60";

/// What the plugin has besides.
const REST: &str = "--maxvolumespernode=7 --debugpath=/tmp --suppresssnapshotcapability=t --suppressrvolumeclonecapability=1 \
    --allowprotocolcontainers=TRUE --allowasyncobjectdeletion=F --allowsnapshotsofdirectoryvolumes=0 \
    --allowautoseedsnapshotcreation --rotateapiendpointoneachrequest --wekametricsfetchintervalseconds=30 \
    --wekametricsfetchconcurrentrequests=2 --wekametricsquotaupdateconcurrentrequests=3 \
    --wekametricsquotamapvalidityseconds=60 --fetchquotasinbatchmode=false --enablemetricsserverleaderelection";

fn parse(line: &str) -> Result<WekaArgs, clap::Error> {
    let words = original::arguments(line.split_whitespace().map(Into::into));
    match Args::try_parse_from(words)?.command {
        Command::Driver(Driver::Weka(args)) => Ok(*args),
        other => panic!("another command: {other:?}"),
    }
}

#[test]
fn both_of_its_lines_are_taken_under_both_names_with_one_dash_or_two() {
    for (flags, has_controller, port) in [(CONTROLLER, true, 9090), (NODE, false, 9094)] {
        let one_dash = flags.replace(" --", " -");
        for line in [
            format!("/wekafsplugin {flags}"),
            format!("wekafsplugin -{}", one_dash.trim_start_matches('-')),
            format!("stowage driver weka {flags}"),
            format!("stowage driver weka -{}", one_dash.trim_start_matches('-')),
        ] {
            let args = parse(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(args.driver.driver.mode.has_controller(), has_controller);
            assert_eq!(args.driver.node_id, "node-1");
            assert!(args.enable_metrics);
            assert_eq!(args.metrics_port, port);
            assert_eq!(args.service.log.verbosity, Some(5));
            assert_eq!(args.driver.mutually_exclusive_mount_options.len(), 3);
        }
    }
}

#[test]
fn every_flag_that_it_can_add_is_known() {
    for flags in [CONTROLLER, NODE] {
        let args = parse(&format!("wekafsplugin {flags} {EVERYTHING} {REST}")).unwrap();
        assert!(args.use_json_logging && args.driver.skip_garbage_collection);
        assert_eq!(args.driver.container_name.as_deref(), Some("client"));
        assert_eq!(args.driver.driver.max_volumes_per_node, 7);
    }
    assert!(parse("wekafsplugin --nodeid=n --endpoint=/x --no-such-flag").is_err());
}

#[test]
fn switches_take_every_word_that_go_takes() {
    let switched = |word: &str| {
        let line = format!("wekafsplugin --nodeid=n --endpoint=/x {word}");
        parse(&line).unwrap().driver.allow_insecure_https
    };
    for on in ["", "=1", "=t", "=T", "=true", "=TRUE", "=True"] {
        assert!(switched(&format!("-allowinsecurehttps{on}")), "{on}");
    }
    for off in ["=0", "=f", "=F", "=false", "=FALSE", "=False"] {
        assert!(!switched(&format!("--allowinsecurehttps{off}")), "{off}");
    }
}
