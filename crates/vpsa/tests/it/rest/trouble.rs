//! Arrays that are away, slow, half-done, or talk nonsense.

use std::time::Duration;

use secrecy::SecretString;
use stowage_sim::faults::Trouble;
use stowage_sim::vpsa::control::trouble::Own;
use stowage_vpsa::rest::api::Kind;
use stowage_vpsa::rest::{ApiError, Client, ClientOptions, Refusal, Trust};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::rest::rig::{Rig, client, done};

/// How long anything may take, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn reads_are_repeated_and_changes_are_not() {
    let rig = Rig::new().await;
    for trouble in [
        Trouble::Refuse(503),
        Trouble::Drop,
        Trouble::DoneButDropped,
        Trouble::Refuse(500),
    ] {
        rig.fault("GET", "pools", 2, trouble).await;
        assert_eq!(rig.api().pools().await.unwrap().len(), 1);
    }
    for (number, trouble) in [Trouble::DoneButDropped, Trouble::DoneButRefused(503)]
        .into_iter()
        .enumerate()
    {
        rig.fault("POST", "volumes", 1, trouble).await;
        rig.array.control().take_requests().await.unwrap();
        let name = format!("half-{number}");
        let error = rig
            .api()
            .create_volume(&rig.new_volume(&name, Kind::Nas))
            .await
            .unwrap_err();
        assert!(error.is_unreachable(), "{error}");
        let asked = rig.array.control().take_requests().await.unwrap();
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert!(
            rig.api().volume_named(&name).await.unwrap().is_some(),
            "it was made all the same"
        );
    }
}

#[tokio::test]
async fn an_array_that_is_away_is_named_and_comes_back() {
    let rig = Rig::new().await;
    rig.array.control().stop_endpoint(0).await.unwrap();
    let patient = rig.client.within(100 * PATIENCE);
    let told = timeout(PATIENCE, patient.pools()).await;
    let error = told.expect("it is told at once").unwrap_err();
    let ApiError::Unreachable { address, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*address, rig.array.hostname());
    let late = rig
        .client
        .within(Duration::from_millis(50))
        .pools()
        .await
        .unwrap_err();
    assert!(matches!(late, ApiError::Deadline { .. }), "{late}");
    rig.array.control().start_endpoint(0).await.unwrap();
    // Nothing was sent to an array that was away, so a change is made when it is back.
    assert_eq!(rig.api().pools().await.unwrap().len(), 1);
}

#[tokio::test]
async fn nobody_waits_longer_than_the_caller() {
    let rig = Rig::new().await;
    rig.api().pools().await.unwrap();
    rig.fault("GET", "pools", 1, Trouble::Hold).await;
    let hurried = rig.client.within(Duration::from_secs(1));
    let told = timeout(PATIENCE, hurried.pools()).await;
    let error = told.expect("it ends").unwrap_err();
    assert!(error.is_unreachable(), "{error}");
}

#[tokio::test]
async fn a_wrong_key_is_told_however_the_array_puts_it() {
    let rig = Rig::new().await;
    let stranger = client(&rig.array, |options| {
        options.access_key = SecretString::from("WRONG-1");
    });
    let error = stranger
        .within(Duration::from_secs(5))
        .pools()
        .await
        .unwrap_err();
    assert!(matches!(error, ApiError::Credentials { .. }), "{error}");
    assert!(
        error.to_string().contains("Invalid credentials."),
        "{error}"
    );
    for status in [401, 403] {
        rig.fault("GET", "pools", 1, Trouble::Refuse(status)).await;
        let error = rig.api().pools().await.unwrap_err();
        assert_eq!(error.refusal(), Some(Refusal::Credentials), "{error}");
    }
    rig.array.control().set_access_key("NEW-2").await.unwrap();
    assert_eq!(
        rig.api().pools().await.unwrap_err().refusal(),
        Some(Refusal::Credentials)
    );
    let renewed = client(&rig.array, |options| {
        options.access_key = SecretString::from("NEW-2");
    });
    assert_eq!(
        renewed
            .within(Duration::from_secs(5))
            .pools()
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn nonsense_is_told_from_a_refusal() {
    let rig = Rig::new().await;
    rig.fault("GET", "pools", 1, Own::Garbage).await;
    let error = rig.api().pools().await.unwrap_err();
    assert!(matches!(error, ApiError::Malformed { .. }), "{error}");
    rig.fault("POST", "volumes", 1, Own::DoneButGarbage).await;
    let error = rig
        .api()
        .create_volume(&rig.new_volume("half", Kind::Nas))
        .await
        .unwrap_err();
    assert!(error.is_unreachable(), "{error}");
    assert!(rig.api().volume_named("half").await.unwrap().is_some());
    let say = Own::Say {
        status: 4711,
        message: "The heavens have fallen".to_owned(),
    };
    rig.fault("GET", "pools", 1, say).await;
    let error = rig.api().pools().await.unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::Other));
    assert!(
        error.to_string().contains("4711") && error.to_string().contains("heavens"),
        "{error}"
    );
    rig.fault("GET", "pools", 1, Trouble::Refuse(409)).await;
    assert_eq!(
        rig.api().pools().await.unwrap_err().refusal(),
        Some(Refusal::Busy)
    );
}

#[tokio::test]
async fn an_array_is_asked_only_so_much_at_once() {
    let rig = Rig::new().await;
    // Only those that are asked at once are held: any other would be answered.
    rig.fault("GET", "pools", 2, Trouble::Hold).await;
    let narrow = client(&rig.array, |options| options.concurrency = 2);
    let calls = (0..6).map(|_| {
        let api = narrow.within(PATIENCE);
        tokio::spawn(async move { api.pools().await.unwrap() })
    });
    let calls: Vec<_> = calls.collect();
    rig.struck().await;
    // As often as this somebody else is answered meanwhile.
    for _ in 0..20 {
        rig.api().pools().await.unwrap();
    }
    let counters = rig.array.control().counters().await.unwrap();
    assert_eq!(counters["GET pools"], 2 + 20);
    rig.array.control().clear_faults().await.unwrap();
    for call in calls {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn https_needs_the_right_certificate() {
    let rig = Rig::with(|options| options.plain_http = false).await;
    let ask = |trust: Trust| {
        let client = client(&rig.array, |options| options.trust = trust);
        async move { client.within(Duration::from_secs(5)).pools().await }
    };
    let ca = rig.array.ca_certificate().unwrap();
    assert_eq!(ask(Trust::Only(ca)).await.unwrap().len(), 1);
    assert_eq!(ask(Trust::Anybody).await.unwrap().len(), 1);
    let error = ask(Trust::Machine).await.unwrap_err();
    assert!(matches!(error, ApiError::Untrusted { .. }), "{error}");
    assert!(error.to_string().contains("tls.caCertificate"), "{error}");
    let plain = ask(Trust::Plain).await.unwrap_err();
    assert!(plain.is_unreachable(), "{plain}");
    let http = Rig::new().await;
    let secure = client(&http.array, |options| options.trust = Trust::Anybody);
    let error = secure
        .within(Duration::from_secs(5))
        .pools()
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            ApiError::Scheme {
                scheme: "https",
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_restart_is_lived_through() {
    let rig = Rig::new().await;
    rig.volume("kept", Kind::Nas).await;
    let (control, api) = (rig.array.control().clone(), rig.api());
    let restart =
        tokio::spawn(async move { control.restart(Duration::from_millis(300)).await.unwrap() });
    let address = rig.array.hostname();
    while TcpStream::connect(&address).await.is_ok() && !restart.is_finished() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(api.volume_named("kept").await.unwrap().is_some());
    restart.await.unwrap();
    let volume = api.volume_named("kept").await.unwrap().unwrap();
    done(api.delete_volume(&volume.id, false).await.unwrap());
}

#[test]
fn a_client_that_cannot_be_is_refused_before_it_asks() {
    stowage_service::client::install_crypto_provider();
    let options = |trust, key: &str| {
        ClientOptions::new("10.0.0.1".parse().unwrap(), trust, SecretString::from(key))
    };
    let error = Client::new(options(Trust::Only("nonsense".to_owned()), "KEY")).unwrap_err();
    assert!(error.to_string().contains("PEM"), "{error}");
    let error = Client::new(options(Trust::Plain, "KEY\n1")).unwrap_err();
    assert!(!error.to_string().contains("KEY"), "{error}");
}
