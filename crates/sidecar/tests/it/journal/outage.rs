//! An API server that cannot be reached, or whose answers get lost.

use std::time::Duration;

use kube::Client;
use stowage_service::client;
use stowage_sidecar::journal::Sharing;
use stowage_stage::{eventually, soon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::journal::intents::intent;
use crate::journal::rig::{Process, config, content};

#[derive(Clone, Copy, PartialEq)]
enum Line {
    Whole,
    /// What is sent arrives; when the answer comes, the connection breaks.
    LosesAnswers,
    Cut,
}

/// A client whose way to the API server can be broken.
async fn client_on_a_line() -> (Client, watch::Sender<Line>) {
    let mut config = config().await;
    let server = config.cluster_url.authority().unwrap().to_string();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (line, state) = watch::channel(Line::Whole);
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            tokio::spawn(forward(near, server.clone(), state.clone()));
        }
    });
    config.cluster_url = format!("https://127.0.0.1:{port}").parse().unwrap();
    (client::connect(config).unwrap(), line)
}

async fn forward(near: TcpStream, server: String, mut line: watch::Receiver<Line>) {
    let far = TcpStream::connect(&server).await.unwrap();
    let (mut near_read, mut near_write) = near.into_split();
    let (mut far_read, mut far_write) = far.into_split();
    let answers = line.clone();
    let back = async {
        let mut buffer = vec![0; 65_536];
        loop {
            let length = far_read.read(&mut buffer).await.unwrap_or(0);
            if length == 0 || *answers.borrow() != Line::Whole {
                return;
            }
            if near_write.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = back => {}
        _ = tokio::io::copy(&mut near_read, &mut far_write) => {}
        _ = line.wait_for(|line| *line == Line::Cut) => {}
    }
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_known_as_our_own() {
    let (client, line) = client_on_a_line().await;
    let process = Process::start_with(client, "lost-answer", "me", Sharing::Exclusive)
        .await
        .unwrap();
    soon(process.journal.record(intent("1"))).await.unwrap();
    line.send_replace(Line::LosesAnswers);
    let journal = process.journal.clone();
    let recorded = tokio::spawn(async move { journal.record(intent("2")).await });
    eventually("it arrives", async || {
        let content = content("lost-answer").await;
        content.contains("\"2\"").then_some(())
    })
    .await;
    assert!(!recorded.is_finished(), "nobody knows yet");
    line.send_replace(Line::Whole);
    soon(recorded).await.unwrap().unwrap();
    assert!(!process.journal.lost().is_cancelled());
    assert_eq!(process.journal.all(), ["1", "2"].map(intent));
    process.stop().await;
}

#[tokio::test]
async fn claims_wait_for_an_api_server_that_is_away() {
    let (client, line) = client_on_a_line().await;
    let process = Process::start_with(client, "away", "me", Sharing::Exclusive)
        .await
        .unwrap();
    line.send_replace(Line::Cut);
    let mut recorded = Box::pin(process.journal.record(intent("1")));
    let early = timeout(Duration::from_secs(1), &mut recorded).await;
    assert!(early.is_err(), "{early:?}");
    assert!(process.journal.is_empty(), "it is not durable");
    line.send_replace(Line::Whole);
    soon(recorded).await.unwrap();
    assert!(content("away").await.contains("\"1\""));

    // A process that ends meanwhile does not wait for ever.
    line.send_replace(Line::Cut);
    process.journal.forget("1");
    process.stop().await;
}
