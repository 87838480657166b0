use std::num::NonZeroUsize;

use stowage_conformance::{
    AccessType, Counts, Event, Filter, Options, Outcome, PlaceOptions, Report, Secrets, conformance,
};
use stowage_memory_driver::{Access, Services};
use tokio_util::sync::CancellationToken;

use crate::memory::{Served, Shape};

/// Options for a driver at `csi.sock`.
pub fn options(served: &Served) -> Options {
    let soon = std::time::Duration::from_secs(10);
    Options {
        controller_endpoint: served.endpoint("csi.sock"),
        node_endpoint: served.endpoint("csi.sock"),
        filter: Filter::default(),
        volume_parameters: [("type".to_owned(), "fast".to_owned())].into(),
        snapshot_parameters: [].into(),
        mutable_parameters: [("tier".to_owned(), "gold".to_owned())].into(),
        secrets: Secrets::default(),
        volume_size: 1 << 30,
        expand_size: 2 << 30,
        access_type: AccessType::Mount,
        places: PlaceOptions {
            staging_dir: served.folder.path().join("staging"),
            target_dir: served.folder.path().join("target"),
            create_staging: None,
            remove_staging: None,
            create_target: None,
            remove_target: None,
            check_path: None,
            timeout: soon,
        },
        name_prefix: "test".to_owned(),
        repeat: 3,
        attach_limit: true,
        call_timeout: soon,
        ready_timeout: soon,
        jobs: NonZeroUsize::MIN,
    }
}

pub async fn run(options: Options) -> Report {
    let ended = conformance(options, CancellationToken::new(), |_| {}).await;
    ended.expect("a driver and cases")
}

fn assert_all_pass(report: &Report) {
    let bad: Vec<_> = report
        .cases
        .iter()
        .filter(|case| case.outcome != Outcome::Passed)
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(report.cases.len(), 95);
    assert!(report.is_success());
}

#[tokio::test]
async fn a_driver_that_can_everything_passes_all_cases_and_is_empty_afterwards() {
    let served = Served::start(None);
    let mut seen = Vec::new();
    let report = conformance(options(&served), CancellationToken::new(), |event| {
        seen.push(match event {
            Event::Waiting(why) => why,
            Event::Started { driver, cases } => format!("{} {cases}", driver.name),
            Event::Finished(case) => case.name.to_owned(),
        });
    })
    .await
    .unwrap();
    assert_all_pass(&report);
    assert_eq!(served.left(), [] as [&str; 0]);
    assert_eq!(served.driver.accesses(), [Access::Mount]);
    assert_eq!(seen[0], "memory.csi.test 95");
    let names: Vec<_> = report.cases.iter().map(|case| case.name).collect();
    assert_eq!(seen[1..], names);
}

#[tokio::test]
async fn raw_block_volumes_pass_too() {
    let served = Served::start(None);
    let mut options = options(&served);
    options.access_type = AccessType::Block;
    assert_all_pass(&run(options).await);
    assert_eq!(served.driver.accesses(), [Access::Block]);
    assert_eq!(served.left(), [] as [&str; 0]);
}

#[tokio::test]
async fn several_cases_at_a_time_do_not_disturb_each_other() {
    let served = Served::start(None);
    let mut options = options(&served);
    options.jobs = NonZeroUsize::new(4).unwrap();
    assert_all_pass(&run(options).await);
    assert_eq!(served.left(), [] as [&str; 0]);
}

#[tokio::test]
async fn a_driver_may_have_two_sockets() {
    let served = Served::prepare(Shape::Full, None);
    served.listen("csi.sock", Services::Controller);
    served.listen("node.sock", Services::Node);
    let mut options = options(&served);
    options.node_endpoint = served.endpoint("node.sock");
    assert_all_pass(&run(options).await);
}

#[tokio::test]
async fn a_driver_may_expand_volumes_only_while_nobody_uses_them() {
    let served = Served::start_as(Shape::Offline, None);
    assert_all_pass(&run(options(&served)).await);
}

#[tokio::test]
async fn what_a_driver_does_not_promise_is_skipped_with_the_reason() {
    let served = Served::start_as(Shape::NodeOnly, None);
    let report = run(options(&served)).await;
    assert_eq!(
        report.counts(),
        Counts {
            passed: 10,
            failed: 0,
            skipped: 85
        },
        "{report:#?}"
    );
    for (group, name, reason) in [
        (
            "CreateVolume",
            "refuses a request without a name",
            "the driver lacks the controller capability CREATE_DELETE_VOLUME",
        ),
        (
            "GroupController",
            "lists known capabilities only",
            "the driver lacks the plugin capability GROUP_CONTROLLER_SERVICE",
        ),
        (
            "NodeExpandVolume",
            "expands a published volume",
            "the driver lacks the node capability EXPAND_VOLUME",
        ),
    ] {
        let mut cases = report.cases.iter();
        let case = cases.find(|case| case.group == group && case.name == name);
        let reason = reason.to_owned();
        assert_eq!(case.unwrap().outcome, Outcome::Skipped { reason });
    }
}

#[tokio::test]
async fn the_attach_limit_is_tested_on_demand() {
    let served = Served::start(None);
    let mut options = options(&served);
    options.attach_limit = false;
    let report = run(options).await;
    assert_eq!(report.counts().passed, 94);
    assert_eq!(report.counts().skipped, 1);
}
