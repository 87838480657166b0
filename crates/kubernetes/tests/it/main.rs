//! Events on a real API server.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Namespace, ObjectReference};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use stowage_kubernetes::events::Events;
use stowage_service::{KubeArgs, Metrics, client};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// A process that has things to say.
struct Speaker {
    events: Events,
    metrics: Metrics,
    stop: CancellationToken,
    writer: JoinHandle<()>,
}

impl Speaker {
    fn start(client: Client) -> Self {
        let metrics = Metrics::new();
        let events = Events::new(client, "external-provisioner disk.example.com", &metrics);
        let stop = CancellationToken::new();
        let (writing, stopped) = (events.clone(), stop.clone());
        let writer = tokio::spawn(async move { writing.run(stopped).await });
        Self {
            events,
            metrics,
            stop,
            writer,
        }
    }

    async fn stop(self) -> Metrics {
        self.stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(10), self.writer).await;
        ended.expect("it does not end").unwrap();
        self.metrics
    }
}

fn metric(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.encode().unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().parse().unwrap()
}

async fn connect_as(user: Option<&str>) -> Client {
    let kubeconfig = Some(stowage_testing::shared().kubeconfig().into());
    let mut config = KubeArgs { kubeconfig }.config().await.unwrap();
    // The server makes its own namespace a moment after it is ready.
    let namespaces: Api<Namespace> = Api::all(client::connect(config.clone()).unwrap());
    while namespaces.get_opt("default").await.unwrap().is_none() {
        sleep(Duration::from_millis(50)).await;
    }
    config.auth_info.impersonate = user.map(str::to_owned);
    client::connect(config).unwrap()
}

/// A namespace of the test's own.
async fn namespace(name: &str) -> (Client, Api<Event>) {
    let client = connect_as(None).await;
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let namespaces = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    (client.clone(), Api::namespaced(client, name))
}

fn claim(namespace: &str, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(format!("uid-of-{name}")),
        ..ObjectReference::default()
    }
}

/// All Events, once there are as many as wanted.
async fn wait_for(api: &Api<Event>, wanted: impl Fn(&[Event]) -> bool) -> Vec<Event> {
    for _ in 0..200 {
        let events = api.list(&ListParams::default()).await.unwrap().items;
        if wanted(&events) {
            return events;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("not in 20 s");
}

#[tokio::test]
async fn what_is_said_of_a_claim_is_in_its_namespace() {
    let (client, api) = namespace("told").await;
    let speaker = Speaker::start(client);
    speaker.events.warning(
        claim("told", "data"),
        "ProvisioningFailed",
        "the array is full",
    );
    let other = speaker
        .events
        .as_component("external-attacher disk.example.com");
    other.normal(claim("told", "other"), "Attached", "done");
    let mut events = wait_for(&api, |events| events.len() == 2).await;
    events.sort_by_key(|event| event.reason.clone());
    let [attached, failed] = &events[..] else {
        panic!()
    };
    assert_eq!(failed.type_.as_deref(), Some("Warning"));
    assert_eq!(failed.reason.as_deref(), Some("ProvisioningFailed"));
    assert_eq!(failed.message.as_deref(), Some("the array is full"));
    assert_eq!(failed.involved_object, claim("told", "data"));
    assert_eq!(failed.count, Some(1));
    assert!(failed.first_timestamp.is_some() && failed.first_timestamp == failed.last_timestamp);
    let component = |event: &Event| event.source.clone().unwrap().component.unwrap();
    assert_eq!(component(failed), "external-provisioner disk.example.com");
    assert_eq!(component(attached), "external-attacher disk.example.com");
    assert_eq!(attached.type_.as_deref(), Some("Normal"));
    speaker.stop().await;
}

#[tokio::test]
async fn what_is_said_of_a_volume_is_in_the_default_namespace() {
    let client = connect_as(None).await;
    let speaker = Speaker::start(client.clone());
    let volume = ObjectReference {
        kind: Some("PersistentVolume".to_owned()),
        namespace: None,
        ..claim("", "pvc-1")
    };
    speaker
        .events
        .warning(volume.clone(), "VolumeFailedDelete", "it is in use");
    let api: Api<Event> = Api::namespaced(client, "default");
    let about = |event: &Event| event.involved_object == volume;
    wait_for(&api, |events| events.iter().any(about)).await;
    speaker.stop().await;
}

#[tokio::test]
async fn the_same_thing_again_raises_the_count_of_one_event() {
    let (client, api) = namespace("repeated").await;
    let speaker = Speaker::start(client);
    let say = || {
        let claim = claim("repeated", "data");
        speaker
            .events
            .warning(claim, "ProvisioningFailed", "the array is full");
    };
    say();
    wait_for(&api, |events| events.len() == 1).await;
    // Events know seconds and nothing less.
    sleep(Duration::from_millis(1100)).await;
    for _ in 0..50 {
        say();
    }
    let events = wait_for(&api, |events| events[0].count == Some(51)).await;
    assert_eq!(events.len(), 1);
    assert!(events[0].last_timestamp > events[0].first_timestamp);
    // What came since is written at the end.
    say();
    let metrics = speaker.stop().await;
    let events = api.list(&ListParams::default()).await.unwrap().items;
    assert_eq!((events.len(), events[0].count), (1, Some(52)));
    assert_eq!(metric(&metrics, "stowage_events_written_total "), 3);
    assert_eq!(metric(&metrics, "stowage_events_dropped_total "), 0);
}

#[tokio::test]
async fn an_event_that_somebody_deleted_is_made_again() {
    let (client, api) = namespace("deleted").await;
    let speaker = Speaker::start(client);
    let say = || {
        speaker
            .events
            .warning(claim("deleted", "data"), "ProvisioningFailed", "no");
    };
    say();
    wait_for(&api, |events| events.len() == 1).await;
    let all = ListParams::default();
    api.delete_collection(&DeleteParams::default(), &all)
        .await
        .unwrap();
    say();
    sleep(Duration::from_secs(6)).await;
    say();
    wait_for(&api, |events| events.len() == 1).await;
    speaker.stop().await;
}

#[tokio::test]
async fn long_messages_are_cut_between_characters() {
    let (client, api) = namespace("long").await;
    let speaker = Speaker::start(client);
    speaker.events.warning(
        claim("long", "data"),
        "ProvisioningFailed",
        "€".repeat(1000),
    );
    let events = wait_for(&api, |events| events.len() == 1).await;
    assert_eq!(events[0].message, Some("€".repeat(341)));
    speaker.stop().await;
}

#[tokio::test]
async fn a_flood_is_dropped_and_counted_and_never_waits() {
    let (client, api) = namespace("flood").await;
    let speaker = Speaker::start(client);
    for number in 0..20_000 {
        let message = format!("message {number}");
        speaker
            .events
            .normal(claim("flood", "data"), "Provisioning", message);
    }
    let events = wait_for(&api, |events| events.len() > 500).await;
    let metrics = speaker.stop().await;
    let dropped = metric(&metrics, "stowage_events_dropped_total ");
    let written = metric(&metrics, "stowage_events_written_total ");
    assert!(
        dropped > 10_000 && written >= events.len() as u64,
        "{dropped} {written}"
    );
}

#[tokio::test]
async fn without_permission_nothing_is_written_and_nothing_hangs() {
    let (_, api) = namespace("mute").await;
    let speaker = Speaker::start(connect_as(Some("nobody")).await);
    for name in ["a", "b", "c"] {
        let claim = claim("mute", name);
        speaker.events.warning(claim, "ProvisioningFailed", "no");
    }
    let metrics = speaker.stop().await;
    assert_eq!(metric(&metrics, "stowage_events_dropped_total "), 3);
    let written = api.list(&ListParams::default()).await.unwrap().items;
    assert!(written.is_empty(), "{written:?}");
}

#[tokio::test]
async fn an_event_that_nobody_takes_does_not_stop_the_others() {
    let (client, api) = namespace("other").await;
    let speaker = Speaker::start(client);
    let nowhere = claim("nowhere", "data");
    speaker.events.warning(nowhere, "ProvisioningFailed", "no");
    let here = claim("other", "data");
    speaker.events.warning(here, "ProvisioningFailed", "no");
    wait_for(&api, |events| events.len() == 1).await;
    let metrics = speaker.stop().await;
    assert_eq!(metric(&metrics, "stowage_events_dropped_total "), 1);
}
