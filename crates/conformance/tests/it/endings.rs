use std::time::Duration;

use stowage_conformance::{DriverError, Event, Outcome, RunError, conformance};
use stowage_memory_driver::{Fault, Services};
use tokio_util::sync::CancellationToken;

use crate::good::{options, run};
use crate::memory::{Served, Shape};

const SOON: Duration = Duration::from_millis(300);

async fn refused(served: &Served) -> String {
    let mut options = options(served);
    options.ready_timeout = SOON;
    let ended = conformance(options, CancellationToken::new(), |_| {}).await;
    let error = ended.expect_err("no driver to test");
    assert!(matches!(
        error,
        RunError::Driver(DriverError::Unreachable { .. } | DriverError::NotReady { .. })
    ));
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[tokio::test]
async fn a_missing_socket_is_named_with_the_reason() {
    let served = Served::prepare(Shape::Full, None);
    let text = refused(&served).await;
    let endpoint = served.endpoint("csi.sock");
    assert!(
        text.starts_with(&format!("nothing answers at `{endpoint}` (No such file")),
        "{text}"
    );
    assert!(
        text.ends_with("start the driver, or correct the endpoint"),
        "{text}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_named() {
    let served = Served::prepare(Shape::Full, None);
    std::fs::write(served.path("csi.sock"), "").unwrap();
    let text = refused(&served).await;
    assert!(text.starts_with("nothing answers at"), "{text}");
}

#[tokio::test]
async fn a_socket_that_speaks_no_grpc_is_not_ready() {
    let served = Served::prepare(Shape::Full, None);
    let listener = tokio::net::UnixListener::bind(served.path("csi.sock")).unwrap();
    let closing = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(stream);
        }
    });
    let text = refused(&served).await;
    assert!(
        text.contains("is not ready after 300ms (Probe answers UNAVAILABLE"),
        "{text}"
    );
    closing.abort();
}

#[tokio::test]
async fn a_driver_that_is_never_ready_is_not_tested() {
    let served = Served::start(Some(Fault::NeverReady));
    let text = refused(&served).await;
    assert!(
        text.contains("is not ready after 300ms (Probe answers OK with ready = false)"),
        "{text}"
    );
    assert!(text.ends_with("look at its log, or wait longer with --ready-timeout"));
}

#[tokio::test]
async fn a_driver_may_start_after_the_suite() {
    let served = Served::prepare(Shape::Full, None);
    let mut options = options(&served);
    options.filter.focus = vec!["Identity".to_owned()];
    let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let running = tokio::spawn(conformance(
        options,
        CancellationToken::new(),
        move |event| {
            if let Event::Waiting(why) = event {
                said.send(why).unwrap();
            }
        },
    ));
    let why = heard.recv().await.unwrap();
    assert!(
        why.starts_with("Waiting up to 10s for the driver: No such file"),
        "{why}"
    );
    tokio::time::sleep(SOON).await;
    served.listen("csi.sock", Services::All);
    assert_eq!(running.await.unwrap().unwrap().counts().passed, 3);
    assert_eq!(heard.recv().await, None, "said once");
}

#[tokio::test]
async fn a_driver_that_dies_is_reported_once() {
    let served = Served::start(Some(Fault::Dies));
    let mut options = options(&served);
    options.ready_timeout = SOON;
    options.filter.focus = vec!["CreateVolume".to_owned()];
    options.filter.skip = vec!["without".to_owned()];
    let report = run(options).await;
    assert_eq!(report.counts().failed, 1, "{report:#?}");
    let Outcome::Failed { failures } = &report.cases[0].outcome else {
        panic!("{report:#?}");
    };
    assert!(failures[0].got.starts_with("UNAVAILABLE"), "{failures:?}");
    let Outcome::Skipped { reason } = &report.cases[1].outcome else {
        panic!("{report:#?}");
    };
    assert!(
        reason.starts_with("the driver went away during `CreateVolume: makes a volume of a size"),
        "{reason}"
    );
    assert!(!report.is_success());
}

#[tokio::test]
async fn a_volume_whose_creation_was_not_answered_is_removed() {
    let served = Served::start(Some(Fault::FirstVolumeNotAnswered));
    let mut options = options(&served);
    options.call_timeout = SOON;
    options.filter.focus = vec!["CreateVolume: takes a name".to_owned()];
    let report = run(options).await;
    let Outcome::Failed { failures } = &report.cases[0].outcome else {
        panic!("{report:#?}");
    };
    assert!(
        failures[0].got.starts_with("DEADLINE_EXCEEDED"),
        "{failures:?}"
    );
    assert_eq!(failures.len(), 1);
    assert_eq!(served.driver.deleted_volumes().len(), 1);
    assert_eq!(served.left(), [] as [&str; 0]);
}

#[tokio::test]
async fn an_interrupted_run_cleans_up_before_it_ends() {
    let served = Served::start(Some(Fault::FirstVolumeNotAnswered));
    let mut options = options(&served);
    options.filter.focus = vec!["CreateVolume".to_owned()];
    options.filter.skip = vec!["without".to_owned()];
    let stop = CancellationToken::new();
    let running = tokio::spawn(conformance(options, stop.clone(), |_| {}));
    while served.driver.volumes().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel();
    let report = running.await.unwrap().unwrap();
    assert!(report.interrupted && !report.is_success());
    assert_eq!(report.counts().skipped, report.cases.len());
    assert_eq!(served.left(), [] as [&str; 0]);
}
