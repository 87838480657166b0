//! What the driver's liveness probe sees. No test here has a runtime of its own: the endpoint brings all it needs.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_sidecar::liveness::{Liveness, LivenessArgs};
use stowage_stage::SOON;

use crate::node::driver::{Answer, RunningDriver, TestDriver, place};

/// Of an endpoint in a hurry: others wait as long as it takes.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

fn start(endpoint: &Endpoint, metrics: ClientMetrics) -> Liveness {
    start_with(endpoint, metrics, SOON)
}

fn start_with(endpoint: &Endpoint, metrics: ClientMetrics, timeout: Duration) -> Liveness {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Liveness::serve(listener, timeout, endpoint, metrics).unwrap()
}

/// Status line and body.
fn get(address: SocketAddr, path: &str) -> (u16, String) {
    answer_of(ask(address, path))
}

fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    stream
}

fn answer_of(mut stream: TcpStream) -> (u16, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, body.to_owned())
}

fn healthz(liveness: &Liveness) -> (u16, String) {
    get(liveness.address(), "/healthz")
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let give_up = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < give_up, "not within {SOON:?}: {what}");
        thread::yield_now();
    }
}

#[test]
fn the_answer_is_the_drivers() {
    let (_folder, endpoint) = place();
    let liveness = start(&endpoint, ClientMetrics::default());
    let (code, sentence) = healthz(&liveness);
    assert_eq!(code, 500);
    assert!(sentence.contains("No such file"), "{sentence}");

    let driver = TestDriver::named("x.csi");
    let running = driver.start(&endpoint);
    let hurried = start_with(&endpoint, ClientMetrics::default(), PROBE_TIMEOUT);
    let (not_ready, late) = (
        "the driver says that it is not ready",
        "did not answer Probe within 500ms",
    );
    for (liveness, answer, expected, words) in [
        (&liveness, Answer::Ready, 200, "ok"),
        (&liveness, Answer::Nothing, 200, "ok"),
        (&liveness, Answer::NotReady, 500, not_ready),
        (&liveness, Answer::Error, 500, "the array is on fire"),
        (&liveness, Answer::Slow(PROBE_TIMEOUT * 2), 200, "ok"),
        (&hurried, Answer::Slow(SOON), 500, late),
        (&hurried, Answer::Never, 500, late),
        (&liveness, Answer::Ready, 200, "ok"),
    ] {
        driver.answer(answer);
        let (code, body) = healthz(liveness);
        assert_eq!(code, expected, "{answer:?}: {body}");
        assert!(body.contains(words), "{answer:?}: {body}");
        assert!(code != 200 || body == "ok", "{body}");
        assert_eq!(body.lines().count(), 1, "{body}");
    }
    // An answer that came too late is not that of the next question.
    until("the hurried one is content", || healthz(&hurried).0 == 200);

    running.kill();
    assert_eq!(healthz(&liveness).0, 500);
    let _running = driver.start(&endpoint);
    assert_eq!(healthz(&liveness).0, 200);
}

#[test]
fn a_process_that_speaks_something_else_is_not_alive() {
    let (_folder, endpoint) = place();
    let garbage = RunningDriver::garbage(&endpoint);
    let liveness = start(&endpoint, ClientMetrics::default());
    for _ in 0..3 {
        let (code, sentence) = healthz(&liveness);
        assert_eq!(code, 500, "{sentence}");
        assert!(
            sentence.starts_with("the driver is not alive: Probe ended with"),
            "{sentence}"
        );
    }
    garbage.kill();
    let _running = TestDriver::named("x.csi").start(&endpoint);
    assert_eq!(healthz(&liveness).0, 200);
}

#[test]
fn a_driver_that_hangs_is_asked_once_for_all_who_wait() {
    let (_folder, endpoint) = place();
    let driver = TestDriver::named("x.csi").answering(Answer::Held);
    let _running = driver.start(&endpoint);
    let liveness = start(&endpoint, ClientMetrics::default());
    let askers = (0..8).map(|_| ask(liveness.address(), "/healthz"));
    let askers: Vec<_> = askers.collect();
    // One thread hears everybody, in order: when this is answered, all others wait.
    assert_eq!(get(liveness.address(), "/").0, 404);
    driver.answer(Answer::NotReady);
    for asker in askers {
        assert_eq!(answer_of(asker).0, 500);
    }
    assert_eq!(driver.probes(), 1);
}

#[test]
fn other_paths_are_not_found_and_cost_the_driver_nothing() {
    let (_folder, endpoint) = place();
    let driver = TestDriver::named("x.csi");
    let _running = driver.start(&endpoint);
    let liveness = start(&endpoint, ClientMetrics::default());
    assert_eq!(get(liveness.address(), "/").0, 404);
    assert_eq!(driver.probes(), 0);
}

#[test]
fn probes_are_counted_under_the_drivers_name_once_it_is_known() {
    let (_folder, endpoint) = place();
    let _running = TestDriver::named("x.csi").start(&endpoint);
    let mut registry = Registry::default();
    let liveness = start(&endpoint, ClientMetrics::register(&mut registry));
    healthz(&liveness);
    liveness.name_driver(&"x.csi".parse().unwrap());
    healthz(&liveness);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for name in ["unknown-driver", "x.csi"] {
        let series = format!(
            "csi_sidecar_operations_seconds_count{{driver_name=\"{name}\",method_name=\"/csi.v1.Identity/Probe\",\
             grpc_status_code=\"OK\"}} 1"
        );
        assert!(text.contains(&series), "{text}");
    }
}

#[test]
fn a_port_in_use_is_named_with_its_flag_and_none_is_opened_unasked() {
    let (_folder, endpoint) = place();
    let taken = TcpListener::bind("[::]:0")
        .or_else(|_| TcpListener::bind("0.0.0.0:0"))
        .unwrap();
    let mut args = LivenessArgs {
        health_port: Some(taken.local_addr().unwrap().port()),
        probe_timeout: PROBE_TIMEOUT,
    };
    let error = Liveness::start(&args, &endpoint, ClientMetrics::default())
        .unwrap_err()
        .to_string();
    let port = taken.local_addr().unwrap().port();
    let port = format!("port {port} is already in use");
    assert!(
        error.contains(&port) && error.contains("--health-port"),
        "{error}"
    );

    for none in [None, Some(0)] {
        args.health_port = none;
        let none = Liveness::start(&args, &endpoint, ClientMetrics::default()).unwrap();
        assert!(none.is_none());
    }
}

#[test]
fn every_interface_answers() {
    let (_folder, endpoint) = place();
    let _running = TestDriver::named("x.csi").start(&endpoint);
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let args = LivenessArgs {
        health_port: Some(port),
        probe_timeout: SOON,
    };
    let _liveness = Liveness::start(&args, &endpoint, ClientMetrics::default())
        .unwrap()
        .unwrap();
    assert_eq!(
        get(([127, 0, 0, 1], port).into(), "/healthz"),
        (200, "ok".to_owned())
    );
}

#[test]
fn dropped_it_frees_the_port() {
    let (_folder, endpoint) = place();
    let liveness = start(&endpoint, ClientMetrics::default());
    let address = liveness.address();
    drop(liveness);
    until("it is free", || TcpListener::bind(address).is_ok());
}
