//! Leader election against a real API server.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod scene;

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use parking_lot::Mutex;
use serde_json::json;
use stowage_service::lease::Loss;
use stowage_service::{Elections, Metrics, client};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

use scene::{SECOND, Scene, args, in_time};

#[tokio::test]
async fn the_first_candidate_leads_and_is_written_into_the_lease() {
    let scene = Scene::new().await;
    let labels = ["--leader-election-labels=team:storage"];
    let mut first = scene.candidate("first", &labels).await;
    first.leads().await;
    let lease = scene.leases.get("first").await.unwrap();
    let spec = lease.spec.unwrap();
    assert_eq!(spec.holder_identity.as_ref(), Some(&first.identity));
    assert_eq!(
        (spec.lease_duration_seconds, spec.lease_transitions),
        (Some(3), Some(0))
    );
    assert_eq!(lease.metadata.labels.unwrap()["team"], "storage");
    assert_eq!(
        first.status(),
        "leader_election_master_status{name=\"first\"} 1"
    );

    scene.pass(4 * SECOND).await;
    assert!(first.is_leading());
    let renewed = scene.spec("first").await;
    assert!(
        renewed.renew_time > spec.renew_time && renewed.acquire_time == spec.acquire_time,
        "{renewed:?}"
    );
    first.stop().await;
}

#[tokio::test]
async fn a_second_candidate_takes_over_at_once_when_the_first_stops() {
    let scene = Scene::new().await;
    let mut first = scene.candidate("handover", &[]).await;
    first.leads().await;
    let mut second = scene.candidate("handover", &[]).await;
    scene.pass(4 * SECOND).await;
    assert!(first.is_leading() && !second.is_leading());
    first.stop().await;
    scene.pass(SECOND).await;
    second.leads().await;
    assert_eq!(scene.spec("handover").await.lease_transitions, Some(1));
    second.stop().await;
    assert_eq!(scene.spec("handover").await.holder_identity, None);
}

#[tokio::test]
async fn a_dead_leader_is_replaced_after_the_lease_duration_and_not_before() {
    let scene = Scene::new().await;
    let mut first = scene.candidate("dead", &[]).await;
    first.leads().await;
    first.die();
    // What a holder with a wrong clock would have written; observation does not care.
    scene
        .edit("dead", |lease| {
            let renewed = lease.spec.as_mut().unwrap().renew_time.as_mut().unwrap();
            renewed.0 = "2001-01-01T00:00:00Z".parse().unwrap();
        })
        .await;
    let labels = ["--leader-election-labels=team:storage"];
    let mut second = scene.candidate("dead", &labels).await;
    scene.pass(Duration::from_millis(2900)).await;
    let looks = second.line.asked();
    assert!(looks > 3, "only {looks} looks at the lease");
    assert!(
        !second.is_leading(),
        "took over a lease that it saw for 2.9 of 3 s"
    );
    scene.pass(SECOND).await;
    second.leads().await;
    let lease = scene.leases.get("dead").await.unwrap();
    assert_eq!(lease.metadata.labels.unwrap()["team"], "storage");
    second.stop().await;
}

#[tokio::test]
async fn a_leader_that_is_cut_off_stops_before_the_other_starts() {
    let scene = Scene::new().await;
    let mut first = scene.candidate("cut-off", &[]).await;
    first.leads().await;
    let mut second = scene.candidate("cut-off", &[]).await;
    scene.pass(SECOND).await;
    first.line.cut();
    // The last renewal is not older than half a second.
    scene.pass(Duration::from_millis(1400)).await;
    assert!(first.is_leading(), "it gave up before its deadline");
    scene.pass(Duration::from_millis(700)).await;
    assert!(!first.is_leading(), "it goes on after its deadline");
    assert!(!second.is_leading(), "two leaders");
    assert_eq!(first.loss().await, Loss::Deadline);
    scene.pass(3 * SECOND).await;
    second.leads().await;
    second.stop().await;
}

#[tokio::test]
async fn work_that_ignores_the_loss_is_dropped_when_the_lease_expires() {
    let scene = Scene::new().await;
    let mut first = scene.start("stubborn", &[], |_, _| pending()).await;
    first.leads().await;
    first.line.cut();
    scene.pass(Duration::from_millis(2900)).await;
    assert_eq!(
        first.status(),
        "leader_election_master_status{name=\"stubborn\"} 0"
    );
    assert!(
        !first.ended.is_finished(),
        "dropped before the lease expired"
    );
    scene.pass(Duration::from_millis(200)).await;
    assert!(first.ended.is_finished(), "not dropped");
    assert_eq!(first.loss().await, Loss::Deadline);
}

#[tokio::test]
async fn a_leader_stops_when_somebody_else_is_written_into_the_lease() {
    let scene = Scene::new().await;
    let mut first = scene.candidate("taken", &[]).await;
    first.leads().await;
    scene.set_holder("taken", Some("usurper")).await;
    scene.pass(SECOND).await;
    assert_eq!(first.loss().await, Loss::TakenBy("usurper".to_owned()));
}

#[tokio::test]
async fn a_leader_stops_when_a_person_clears_the_holder() {
    let scene = Scene::new().await;
    let mut first = scene.candidate("cleared", &[]).await;
    first.leads().await;
    scene.set_holder("cleared", None).await;
    scene.pass(SECOND).await;
    assert_eq!(first.loss().await, Loss::Cleared);
}

#[tokio::test]
async fn a_leader_survives_changes_that_leave_it_the_holder() {
    let scene = Scene::new().await;
    let mut first = scene.candidate("touched", &[]).await;
    first.leads().await;
    scene
        .edit("touched", |lease| {
            let annotations = lease.metadata.annotations.get_or_insert_default();
            annotations.insert("note".to_owned(), "by hand".to_owned());
        })
        .await;
    scene.pass(SECOND).await;
    let options = DeleteParams::default();
    scene.leases.delete("touched", &options).await.unwrap();
    scene.pass(3 * SECOND).await;
    assert!(first.is_leading());
    assert_eq!(
        scene.spec("touched").await.holder_identity.as_ref(),
        Some(&first.identity)
    );
    first.stop().await;
}

#[tokio::test]
async fn work_that_winds_down_keeps_the_lease() {
    let scene = Scene::new().await;
    let work = |shutdown: CancellationToken, lost: CancellationToken| async move {
        shutdown.cancelled().await;
        // Longer than the lease duration: only renewals can keep it.
        tokio::select! { () = sleep(4 * SECOND) => {}, () = lost.cancelled() => panic!("lost") }
    };
    let mut first = scene.start("winding-down", &[], work).await;
    first.leads().await;
    let mut second = scene.candidate("winding-down", &[]).await;
    first.shutdown.cancel();
    scene.pass(Duration::from_millis(3500)).await;
    assert!(!second.is_leading());
    assert_eq!(
        scene.spec("winding-down").await.holder_identity.as_ref(),
        Some(&first.identity)
    );
    scene.pass(SECOND).await;
    first.stop().await;
    scene.pass(SECOND).await;
    second.leads().await;
    second.stop().await;
}

#[tokio::test]
async fn one_process_leads_several_leases() {
    let scene = Scene::new().await;
    let config = scene.config.clone();
    let elections = Arc::new(Elections::new(config, &args(&[]), &Metrics::new()).unwrap());
    let shutdown = CancellationToken::new();
    let leading = watch::Sender::new(0);
    let names = ["several-a", "several-b", "several-c"];
    let leads = names.map(|name| {
        let (elections, shutdown, leading) = (elections.clone(), shutdown.clone(), leading.clone());
        tokio::spawn(async move {
            let work = |_| async {
                leading.send_modify(|leases| *leases += 1);
                shutdown.cancelled().await;
            };
            elections.lead(name, &shutdown, work).await
        })
    });
    let mut led = leading.subscribe();
    let all = led.wait_for(|leases| *leases == names.len());
    in_time("all are led", all).await.unwrap();
    shutdown.cancel();
    for (name, lead) in names.into_iter().zip(leads) {
        lead.await.unwrap().unwrap();
        assert_eq!(scene.spec(name).await.holder_identity, None);
    }
}

#[tokio::test]
async fn without_leader_election_work_starts_at_once_and_no_lease_is_made() {
    let scene = Scene::new().await;
    let mut alone = args(&[]);
    alone.leader_election = false;
    let config = scene.config.clone();
    let elections = Elections::new(config, &alone, &Metrics::new()).unwrap();
    let led = elections
        .lead("alone", &CancellationToken::new(), |_| async { 7 })
        .await
        .unwrap();
    assert_eq!(led, Some(7));
    assert_eq!(scene.leases.get_opt("alone").await.unwrap(), None);
}

#[tokio::test]
async fn a_process_that_never_led_stops_when_asked_to() {
    let scene = Scene::new().await;
    let mut first = scene.candidate("never", &[]).await;
    first.leads().await;
    let second = scene.candidate("never", &[]).await;
    scene.pass(SECOND).await;
    second.shutdown.cancel();
    let ended = in_time("it stops", second.ended).await.unwrap();
    assert!(matches!(ended, Ok(None)), "{ended:?}");
    first.stop().await;
}

#[tokio::test]
async fn the_holder_is_logged_by_name_and_only_once() {
    let log = Log::default();
    let _guard = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .set_default();
    let scene = Scene::new().await;
    let mut first = scene.candidate("logged", &[]).await;
    first.leads().await;
    let second = scene.candidate("logged", &[]).await;
    scene.pass(2 * SECOND).await;
    let looks = second.line.asked();
    assert!(looks > 3, "only {looks} looks at the lease");
    second.stop().await;
    let said = format!(
        "Another process is the leader; waiting. lease=logged holder={}",
        first.identity
    );
    assert_eq!(log.text().matches(&said).count(), 1, "{}", log.text());
    first.stop().await;
}

/// What was logged in this thread, where the tasks of a test run.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_role_that_grants_get_create_and_update_is_enough() {
    let mut scene = Scene::new().await;
    let client = client::connect(scene.config.clone()).unwrap();
    let role: Role = serde_json::from_value(json!({
        "metadata": {"name": "lessee"},
        "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}],
    }))
    .unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "lessee"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lessee"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "lessee"}],
    }))
    .unwrap();
    Api::default_namespaced(client.clone())
        .create(&PostParams::default(), &role)
        .await
        .unwrap();
    Api::default_namespaced(client)
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
    scene.config.auth_info.impersonate = Some("lessee".to_owned());

    let mut first = scene.candidate("rented", &[]).await;
    first.leads().await;
    let mut second = scene.candidate("rented", &[]).await;
    scene.pass(SECOND).await;
    first.stop().await;
    scene.pass(SECOND).await;
    second.leads().await;
    second.stop().await;
}
