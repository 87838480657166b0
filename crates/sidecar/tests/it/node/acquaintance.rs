//! Getting to know a driver and following its restarts.

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_csi::proto::csi::ProbeRequest;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type;
use stowage_csi::proto::csi::identity_client::IdentityClient;
use stowage_service::Health;
use stowage_sidecar::driver::{
    Change, Driver, DriverError, DriverOptions, DriverWatch, Interest, InvalidName,
};
use stowage_stage::{SOON, until};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::node::driver::{Answer, RunningDriver, TestDriver, log, place};

fn options(endpoint: &Endpoint, health: &Health) -> DriverOptions {
    DriverOptions {
        endpoint: endpoint.clone(),
        timeout: Duration::from_millis(500),
        metrics: ClientMetrics::default(),
        interest: Interest::Capabilities,
        check: health.check("driver"),
    }
}

async fn connect(endpoint: &Endpoint) -> Result<(Driver, DriverWatch), DriverError> {
    let options = options(endpoint, &Health::default());
    let shutdown = CancellationToken::new();
    let connecting = timeout(SOON, Driver::connect(options, &shutdown));
    Ok(connecting.await.unwrap()?.unwrap())
}

async fn next(watch: &mut DriverWatch) -> Result<Change, DriverError> {
    timeout(SOON, watch.next()).await.unwrap()
}

#[tokio::test]
async fn a_driver_that_comes_late_is_waited_for_and_the_reason_is_shown() {
    let (folder, endpoint) = place();
    let health = Health::default();
    let (options, shutdown) = (options(&endpoint, &health), CancellationToken::new());
    let connecting = tokio::spawn(async move { Driver::connect(options, &shutdown).await });

    let shown = |words: &str| health.report().verbose().contains(words);
    until("the missing socket is named", || shown("No such file")).await;
    let driver = TestDriver::named("late.csi").answering(Answer::NotReady);
    let running = driver.start(&endpoint);
    until("the driver's own words", || {
        shown("it says that it is not ready")
    })
    .await;
    driver.answer(Answer::Error);
    until("the failed call", || {
        shown("FailedPrecondition: the array is on fire")
    })
    .await;
    driver.answer(Answer::Never);
    until("the hanging call", || shown("DeadlineExceeded")).await;
    assert!(!connecting.is_finished());

    driver.answer(Answer::Nothing);
    let (known, _watch) = connecting.await.unwrap().unwrap().unwrap();
    assert_eq!(known.name().as_str(), "late.csi");
    assert_eq!(known.vendor_version(), "1.2.3");
    assert!(health.report().is_ready());
    // Four reasons, of which each lasted for one second or several.
    assert_eq!(log().lines(folder.path(), "Waiting for the driver"), 4);
    running.kill();
}

#[tokio::test]
async fn one_reason_is_logged_once_however_long_it_lasts() {
    let (folder, endpoint) = place();
    let (options, shutdown) = (
        options(&endpoint, &Health::default()),
        CancellationToken::new(),
    );
    let connecting = timeout(Duration::from_secs(3), Driver::connect(options, &shutdown));
    assert!(connecting.await.is_err(), "there is no driver");
    assert_eq!(log().lines(folder.path(), "Waiting for the driver"), 1);
}

#[tokio::test]
async fn waiting_ends_when_the_process_is_asked_to_stop() {
    let (_folder, endpoint) = place();
    let (options, shutdown) = (
        options(&endpoint, &Health::default()),
        CancellationToken::new(),
    );
    let stop = shutdown.clone();
    let connecting = tokio::spawn(async move { Driver::connect(options, &stop).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    shutdown.cancel();
    let connected = timeout(SOON, connecting).await.unwrap().unwrap();
    assert!(connected.unwrap().is_none());
}

#[tokio::test]
async fn a_process_that_speaks_something_else_is_waited_out() {
    let (_folder, endpoint) = place();
    let garbage = RunningDriver::garbage(&endpoint);
    let health = Health::default();
    let (options, shutdown) = (options(&endpoint, &health), CancellationToken::new());
    let connecting = tokio::spawn(async move { Driver::connect(options, &shutdown).await });
    until("the failed call is named", || {
        health.report().verbose().contains("Probe ended with")
    })
    .await;

    garbage.kill();
    let _running = TestDriver::named("right.csi").start(&endpoint);
    let (driver, _watch) = timeout(SOON, connecting)
        .await
        .unwrap()
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(driver.name().as_str(), "right.csi");
}

#[tokio::test]
async fn a_name_that_is_none_is_an_error_at_once() {
    let (_folder, endpoint) = place();
    for name in ["", "../../etc/cron.d/x", &"x".repeat(10_000)] {
        let _running = TestDriver::named(name).start(&endpoint);
        match connect(&endpoint).await.map(|(driver, _)| driver) {
            Err(DriverError::InvalidName { source, .. }) => {
                assert_eq!(source, InvalidName(name.to_owned()));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn capabilities_are_read_and_missing_services_are_none() {
    let (_folder, endpoint) = place();
    let driver = TestDriver::named("able.csi")
        .with_controller(&[Type::CreateDeleteVolume, Type::PublishUnpublishVolume]);
    let running = driver.start(&endpoint);
    let (able, _watch) = connect(&endpoint).await.unwrap();
    assert_eq!(
        format!("{:?}", able.capabilities()),
        "[controller_service create_delete_volume publish_unpublish]"
    );
    running.kill();

    let _running = TestDriver::named("humble.csi").start(&endpoint);
    let (humble, _watch) = connect(&endpoint).await.unwrap();
    assert_eq!(format!("{:?}", humble.capabilities()), "[]");
}

#[tokio::test]
async fn calls_are_counted_under_the_drivers_name() {
    let (_folder, endpoint) = place();
    let _running = TestDriver::named("counted.csi").start(&endpoint);
    let mut registry = Registry::default();
    let mut options = options(&endpoint, &Health::default());
    options.metrics = ClientMetrics::register(&mut registry);
    let connected = Driver::connect(options, &CancellationToken::new()).await;
    let (driver, _watch) = connected.unwrap().unwrap();
    let mut identity = IdentityClient::new(driver.connection());
    identity.probe(ProbeRequest {}).await.unwrap();

    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let series = "csi_sidecar_operations_seconds_count{driver_name=\"counted.csi\",\
                  method_name=\"/csi.v1.Identity/Probe\",grpc_status_code=\"OK\"} 1";
    assert!(text.contains(series), "{text}");
}

#[tokio::test]
async fn a_restart_is_noticed_and_what_changed_is_told() {
    let (_folder, endpoint) = place();
    let create = [Type::CreateDeleteVolume];
    let running = TestDriver::named("x.csi")
        .with_controller(&create)
        .start(&endpoint);
    let (driver, mut watch) = connect(&endpoint).await.unwrap();
    assert!(driver.capabilities().create_delete_volume());

    running.kill();
    assert!(matches!(next(&mut watch).await, Ok(Change::Lost)));
    // However often the caller looks away, the search for the driver goes on.
    for _ in 0..10 {
        let looked = timeout(Duration::from_millis(50), watch.next()).await;
        assert!(looked.is_err(), "{looked:?}");
    }
    let running = TestDriver::named("x.csi")
        .with_controller(&create)
        .start(&endpoint);
    assert!(matches!(next(&mut watch).await, Ok(Change::Back)));

    running.kill();
    assert!(matches!(next(&mut watch).await, Ok(Change::Lost)));
    let grown = [Type::CreateDeleteVolume, Type::ExpandVolume];
    let running = TestDriver::named("x.csi")
        .with_controller(&grown)
        .start(&endpoint);
    match next(&mut watch).await {
        Ok(Change::Different(driver)) => assert!(driver.capabilities().expand_volume()),
        other => panic!("{other:?}"),
    }

    running.kill();
    assert!(matches!(next(&mut watch).await, Ok(Change::Lost)));
    let _running = TestDriver::named("y.csi").start(&endpoint);
    let error = next(&mut watch).await.unwrap_err().to_string();
    assert!(error.contains("was `x.csi` and is `y.csi` now"), "{error}");
}

/// The old process is replaced before anybody could see that it was gone.
#[tokio::test]
async fn a_restart_without_a_gap_is_noticed() {
    let (_folder, endpoint) = place();
    let old = TestDriver::named("x.csi").start(&endpoint);
    let (_driver, mut watch) = connect(&endpoint).await.unwrap();
    let _new = TestDriver::named("x.csi")
        .with_controller(&[Type::GetCapacity])
        .start(&endpoint);
    old.kill();
    assert!(matches!(next(&mut watch).await, Ok(Change::Lost)));
    match next(&mut watch).await {
        Ok(Change::Different(driver)) => assert!(driver.capabilities().get_capacity()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_driver_that_stays_is_left_in_peace() {
    let (_folder, endpoint) = place();
    let driver = TestDriver::named("x.csi");
    let _running = driver.start(&endpoint);
    let (_driver, mut watch) = connect(&endpoint).await.unwrap();
    let asked = driver.probes();
    let quiet = timeout(Duration::from_secs(3), watch.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    assert_eq!(driver.probes(), asked);
}
