use stowage_api::driver_deployment::ConditionStatus;

use super::super::condition::Reason;
use super::*;

fn workload(name: &str, desired: i64, available: i64) -> Workload {
    Workload {
        name: name.to_owned(),
        desired,
        available,
        updated: desired,
        is_current: true,
        failure: None,
    }
}

fn observed(nodes: (i64, i64), registered: i64, controller: Option<(i64, i64)>) -> Observation {
    Observation {
        daemon_sets: vec![workload("d-node", nodes.0, nodes.1)],
        deployment: controller
            .map(|(desired, available)| workload("d-controller", desired, available)),
        registered,
        ..Observation::default()
    }
}

fn judged(observation: &Observation) -> (ConditionStatus, &'static str, String) {
    let finding = observation.available("d");
    (finding.status, finding.reason.as_str(), finding.message)
}

#[test]
fn a_driver_without_a_controller_can_be_available() {
    let (status, reason, message) = judged(&observed((3, 3), 3, None));
    assert_eq!((status, reason), (ConditionStatus::True, "Ready"));
    assert_eq!(message, "3 of 3 nodes ready.");
}

#[test]
fn missing_pods_are_counted_and_the_controller_comes_first() {
    let (status, reason, message) = judged(&observed((15, 12), 12, Some((2, 1))));
    assert_eq!(
        (status, reason),
        (ConditionStatus::False, "ControllerNotReady")
    );
    assert_eq!(
        message,
        "12 of 15 nodes ready.\nDeployment \"d-controller\" with CSI driver has 1 not ready pod(s).\nDaemonSet \
         \"d-node\" with CSI driver has 3 not ready pod(s)."
    );
}

#[test]
fn the_name_that_kubelets_know_is_told_beside_the_one_that_is_wanted() {
    let known = Observation {
        other_names: vec!["real".to_owned()],
        ..observed((3, 3), 0, None)
    };
    let (status, reason, message) = judged(&known);
    assert_eq!(
        (status, reason),
        (ConditionStatus::False, "DriverNameMismatch")
    );
    assert!(
        message.contains("`real`") && message.contains("`d`"),
        "{message}"
    );
}

#[test]
fn pods_alone_are_not_enough_kubelets_must_know_the_driver() {
    let observation = observed((3, 3), 1, None);
    assert_eq!(observation.nodes(), (1, 3));
    let (status, reason, message) = judged(&observation);
    assert_eq!((status, reason), (ConditionStatus::False, "NotRegistered"));
    assert!(message.starts_with("1 of 3 nodes ready.\n"), "{message}");
}

#[test]
fn a_daemon_set_that_may_not_make_pods_says_why_though_it_has_counted_none() {
    let mut observation = observed((0, 0), 0, None);
    observation.daemon_sets[0].is_current = false;
    assert_eq!(judged(&observation).1, "Starting");
    observation.daemon_sets[0].failure = Some("exceeded quota: none".to_owned());
    let (status, reason, message) = judged(&observation);
    assert_eq!((status, reason), (ConditionStatus::False, "NodesNotReady"));
    assert_eq!(message, "0 of 0 nodes ready.\nexceeded quota: none");
}

#[test]
fn both_names_are_shown_when_the_driver_calls_itself_something_else() {
    let mut observation = observed((1, 0), 0, None);
    observation.failing_pod = Some(PodFailure {
        text: String::new(),
        reported_name: Some("other".to_owned()),
    });
    let (_, reason, message) = judged(&observation);
    assert_eq!(reason, "DriverNameMismatch");
    assert!(
        message.contains("`other`") && message.contains("`d`"),
        "{message}"
    );
}

#[test]
fn counts_of_an_older_generation_make_no_driver_available() {
    let mut observation = observed((0, 0), 0, None);
    observation.daemon_sets[0].is_current = false;
    assert_eq!(judged(&observation).1, "Starting");
}

#[test]
fn progress_knows_who_has_to_act() {
    let mut observation = observed((3, 3), 3, None);
    assert_eq!(observation.progressing().unwrap().reason, Reason::Complete);
    observation.daemon_sets[0].updated = 1;
    let finding = observation.progressing().unwrap();
    assert_eq!(finding.reason, Reason::RollingOut);
    assert_eq!(finding.message, "d-node: 1 of 3 pods updated");
    observation.waits_for_deletion = true;
    assert_eq!(
        observation.progressing().unwrap().reason,
        Reason::WaitingForDeletion
    );
}

#[test]
fn without_objects_there_is_nothing_to_say_about_pods() {
    let observation = Observation::default();
    assert_eq!(judged(&observation).1, "NotDeployed");
    assert_eq!(observation.progressing(), None);
}
