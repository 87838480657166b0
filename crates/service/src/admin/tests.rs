use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::connect_info::MockConnectInfo;
use clap::Parser;
use tracing::subscriber::DefaultGuard;

use super::*;
use crate::log::tests::thread_log_level;

/// A served admin port with one check, `socket`, that starts out not ready.
struct Served {
    address: SocketAddr,
    socket: crate::health::Check,
    health: Health,
    level: LogLevel,
    _log: DefaultGuard,
}

impl Served {
    fn on(endpoint: &str) -> Self {
        Self::with(endpoint, |admin, listener| async move {
            admin.serve(listener, "/metrics").await
        })
    }

    /// As if every peer had this address.
    fn to_peer(peer: &str) -> Self {
        let peer: SocketAddr = peer.parse().unwrap();
        Self::with("127.0.0.1:0", move |admin, listener| async move {
            listener.set_nonblocking(true)?;
            let router = admin.router("/metrics").layer(MockConnectInfo(peer));
            axum::serve(tokio::net::TcpListener::from_std(listener)?, router).await
        })
    }

    fn with<F>(endpoint: &str, serve: impl FnOnce(Admin, TcpListener) -> F) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let (level, log) = thread_log_level("info");
        let admin = Admin {
            health: Health::default(),
            metrics: Metrics::new(),
            level: level.clone(),
        };
        let socket = admin.health.check("socket");
        let health = admin.health.clone();
        let listener = endpoint
            .parse::<Endpoint>()
            .unwrap()
            .bind()
            .unwrap()
            .unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(admin, listener));
        Self {
            address,
            socket,
            health,
            level,
            _log: log,
        }
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.request("GET", path, "").await
    }

    async fn put(&self, path: &str, body: &str) -> (u16, String) {
        self.request("PUT", path, body).await
    }

    /// Status and everything after the status line.
    async fn request(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let port = self.address.port();
        let exchange = move || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let answer = tokio::task::spawn_blocking(exchange).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_once("\r\n").unwrap().1.to_owned())
    }
}

#[tokio::test]
async fn a_process_that_answers_is_healthy_even_when_it_is_not_ready() {
    let served = Served::on("127.0.0.1:0");
    assert_eq!(served.get("/healthz").await.0, 200);
    assert_eq!(served.get("/healthz/leader-election").await.0, 200);
    assert_eq!(served.get("/readyz").await.0, 503);
}

#[tokio::test]
async fn a_process_that_speaks_for_another_says_how_that_one_is() {
    let served = Served::on("127.0.0.1:0");
    let alive = Arc::new(AtomicBool::new(true));
    let other = Arc::clone(&alive);
    served.health.speak_for(move || {
        let alive = other.load(Ordering::SeqCst);
        async move {
            if alive {
                Ok(())
            } else {
                Err("it hangs".into())
            }
        }
    });
    assert_eq!(served.get("/healthz").await.0, 200);
    alive.store(false, Ordering::SeqCst);
    let (status, answer) = served.get("/healthz").await;
    assert_eq!(status, 500);
    assert!(answer.ends_with("it hangs\n"), "{answer}");
    // The process itself is well.
    assert_eq!(served.get("/healthz/leader-election").await.0, 200);
}

#[tokio::test]
async fn readyz_names_the_check_that_fails_and_is_short_when_all_is_well() {
    let served = Served::on("127.0.0.1:0");
    served.socket.not_ready("nobody listens");
    let (_, answer) = served.get("/readyz").await;
    assert!(answer.contains("[-] socket: nobody listens"), "{answer}");
    served.socket.ready();
    let (status, answer) = served.get("/readyz").await;
    assert_eq!(status, 200);
    assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
}

#[tokio::test]
async fn readyz_verbose_lists_every_check() {
    let served = Served::on("127.0.0.1:0");
    served.socket.ready();
    let (status, answer) = served.get("/readyz?verbose").await;
    assert_eq!(status, 200);
    assert!(answer.ends_with("[+] socket: ready\nready\n"), "{answer}");
}

#[tokio::test]
async fn metrics_are_openmetrics_and_say_so() {
    let served = Served::on("127.0.0.1:0");
    let (status, answer) = served.get("/metrics").await;
    assert_eq!(status, 200);
    assert!(
        answer.contains(
            "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
        )
    );
    assert!(answer.contains("\nprocess_open_fds "), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
}

#[tokio::test]
async fn a_peer_on_the_same_machine_may_change_the_log_level() {
    let served = Served::on("127.0.0.1:0");
    assert!(served.get("/loglevel").await.1.ends_with("\r\n\r\ninfo\n"));
    let (status, answer) = served.put("/loglevel", "debug\n").await;
    assert_eq!(
        (status, served.level.current().as_str()),
        (200, "debug"),
        "{answer}"
    );
    assert!(served.get("/loglevel").await.1.ends_with("\r\n\r\ndebug\n"));
}

#[tokio::test]
async fn loopback_is_recognised_on_a_socket_that_serves_both_address_families() {
    let served = Served::on(":0");
    let (status, answer) = served.put("/loglevel", "debug").await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test]
async fn a_peer_from_elsewhere_may_read_the_log_level_but_not_change_it() {
    for peer in [
        "192.0.2.7:40000",
        "[2001:db8::7]:40000",
        "[::ffff:192.0.2.7]:40000",
    ] {
        let served = Served::to_peer(peer);
        let (status, answer) = served.put("/loglevel", "debug").await;
        assert_eq!((status, served.level.current().as_str()), (403, "info"));
        assert!(answer.contains("only from inside the pod"), "{answer}");
        assert_eq!(served.get("/loglevel").await.0, 200);
    }
}

#[tokio::test]
async fn a_bad_log_level_is_explained_and_changes_nothing() {
    let served = Served::on("127.0.0.1:0");
    for (body, said) in [
        ("", "the log level is empty"),
        ("debgu", "`debgu` is not a log level"),
        ("stowage=lots", "`stowage=lots` is not a log filter"),
    ] {
        let (status, answer) = served.put("/loglevel", body).await;
        assert_eq!((status, served.level.current().as_str()), (400, "info"));
        assert!(answer.contains(said), "{answer}");
    }
}

#[test]
fn a_taken_port_is_an_error_that_names_the_flag() {
    for host in ["", "127.0.0.1"] {
        let holder = Endpoint::On {
            host: host.to_owned(),
            port: 0,
        }
        .bind()
        .unwrap()
        .unwrap();
        let port = holder.local_addr().unwrap().port();
        let error = Endpoint::On {
            host: host.to_owned(),
            port,
        }
        .bind()
        .unwrap_err()
        .to_string();
        let expected = format!(
            "`{host}:{port}` is already in use by another process: choose another address with --http-endpoint"
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn an_address_of_another_machine_is_an_error_that_names_the_flag() {
    let error = "192.0.2.7:8080"
        .parse::<Endpoint>()
        .unwrap()
        .bind()
        .unwrap_err();
    assert!(matches!(error, BindError::Refused { .. }));
    assert!(error.to_string().contains("--http-endpoint"), "{error}");
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    admin: AdminArgs,
}

fn endpoint(arguments: &[&str]) -> Result<Endpoint, clap::Error> {
    Command::try_parse_from([&["test"], arguments].concat())
        .map(|command| command.admin.http_endpoint)
}

#[test]
fn endpoints_are_written_as_upstream_writes_them() {
    let on = |host: &str, port| Endpoint::On {
        host: host.to_owned(),
        port,
    };
    assert_eq!(endpoint(&[]).unwrap(), on("", 8080));
    assert_eq!(endpoint(&["--http-endpoint=:9808"]).unwrap(), on("", 9808));
    assert_eq!(
        endpoint(&["--http-endpoint=0.0.0.0:9808"]).unwrap(),
        on("0.0.0.0", 9808)
    );
    assert_eq!(
        endpoint(&["--http-endpoint=localhost:9808"]).unwrap(),
        on("localhost", 9808)
    );
    assert_eq!(
        endpoint(&["--http-endpoint=[::1]:9808"]).unwrap(),
        on("::1", 9808)
    );
    assert_eq!(endpoint(&["--http-endpoint="]).unwrap(), Endpoint::Off);
    assert_eq!(endpoint(&["--http-endpoint", ""]).unwrap(), Endpoint::Off);
}

#[test]
fn what_is_no_endpoint_is_refused_with_the_form_it_should_have() {
    for text in [
        "9808",
        "host",
        "host:",
        "host:port",
        ":99999",
        "::1:80",
        "[::1:80",
    ] {
        let error = endpoint(&[&format!("--http-endpoint={text}")])
            .unwrap_err()
            .to_string();
        assert!(error.contains("write ADDR:PORT"), "{error}");
    }
}

#[test]
fn a_metrics_path_that_would_hide_another_page_is_refused() {
    for path in ["/readyz", "metrics", "/{any}", ""] {
        assert!(
            Command::try_parse_from(["test", &format!("--metrics-path={path}")]).is_err(),
            "{path}"
        );
    }
    let command = Command::try_parse_from(["test", "--metrics-path=/stats/all"]).unwrap();
    assert_eq!(command.admin.metrics_path, "/stats/all");
}
