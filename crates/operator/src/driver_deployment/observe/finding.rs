//! From what the workloads count to conditions.

use stowage_api::driver_deployment::ConditionStatus;

use super::Observation;
use super::workload::Workload;
use crate::driver_deployment::condition::{AVAILABLE, Finding, PROGRESSING, Reason};

impl Observation {
    /// Whether the driver can be used.
    pub(in super::super) fn available(&self, driver: &str) -> Finding {
        let (status, reason, message) = self.judged(driver);
        Finding {
            about: AVAILABLE,
            status,
            reason,
            message,
        }
    }

    fn judged(&self, driver: &str) -> (ConditionStatus, Reason, String) {
        if !self.is_deployed() {
            let message =
                "Nothing is deployed for this instance: see the condition SyncSuccessful.";
            return (
                ConditionStatus::Unknown,
                Reason::NotDeployed,
                message.to_owned(),
            );
        }
        let counts = format!("{} of {} nodes ready", self.ready(), self.desired());
        let failed = |reason, message| (ConditionStatus::False, reason, message);
        let failing_pod = self.failing_pod.as_ref();
        if let Some(reported) = failing_pod.and_then(|it| it.reported_name.as_ref()) {
            let message = format!(
                "The driver reports the name `{reported}`, but `driverName` is `{driver}`: change one of them. {counts}."
            );
            return failed(Reason::DriverNameMismatch, message);
        }
        if !self.other_names.is_empty() {
            let names = self.other_names.join("` or `");
            let message = format!(
                "The driver reports the name `{names}`, as kubelets of its nodes tell, but `driverName` is `{driver}`: change one of \
                 them. {counts}."
            );
            return failed(Reason::DriverNameMismatch, message);
        }
        let mut idle = self.daemon_sets.iter().filter(|it| it.is_without_pods());
        if let Some(refused) = idle.find_map(|it| it.failure.as_ref()) {
            return failed(Reason::NodesNotReady, format!("{counts}.\n{refused}"));
        }
        if self.workloads().any(|(_, it)| !it.is_current) {
            let message =
                format!("Kubernetes has not processed the current pod templates yet; {counts}.");
            return failed(Reason::Starting, message);
        }
        match self.shortage() {
            Some((reason, lines)) => failed(reason, format!("{counts}.\n{}", lines.join("\n"))),
            None => (ConditionStatus::True, Reason::Ready, format!("{counts}.")),
        }
    }

    /// What is missing, if anything is.
    fn shortage(&self) -> Option<(Reason, Vec<String>)> {
        let short: Vec<_> = self.workloads().filter(|(_, it)| !it.is_ready()).collect();
        let mut lines: Vec<_> = short
            .iter()
            .map(|(kind, it)| {
                let (name, missing) = (&it.name, it.missing());
                format!("{kind} \"{name}\" with CSI driver has {missing} not ready pod(s).")
            })
            .collect();
        lines.extend(self.workloads().filter_map(|(_, it)| it.failure.clone()));
        let reason = match short.first() {
            Some(("Deployment", _)) => Reason::ControllerNotReady,
            Some(_) => Reason::NodesNotReady,
            None if self.ready() < self.desired() => {
                lines.push(
                    "Pods run, but not every kubelet has registered the driver: see `kubectl get csinodes`."
                        .to_owned(),
                );
                Reason::NotRegistered
            }
            None => return None,
        };
        lines.extend(self.failing_pod.as_ref().map(|it| it.text.clone()));
        Some((reason, lines))
    }

    /// The workloads with their kinds, the controller first.
    fn workloads(&self) -> impl Iterator<Item = (&'static str, &Workload)> {
        let controller = self.deployment.iter().map(|it| ("Deployment", it));
        controller.chain(self.daemon_sets.iter().map(|it| ("DaemonSet", it)))
    }

    /// Whether pods are still being replaced; `None` where there are none.
    pub(in super::super) fn progressing(&self) -> Option<Finding> {
        let rolling: Vec<_> = self
            .daemon_sets
            .iter()
            .chain(&self.deployment)
            .filter(|it| !it.is_rolled_out())
            .map(|it| format!("{}: {} of {} pods updated", it.name, it.updated, it.desired))
            .collect();
        let (status, reason) = match (rolling.is_empty(), self.waits_for_deletion) {
            (true, _) => (ConditionStatus::False, Reason::Complete),
            (false, true) => (ConditionStatus::True, Reason::WaitingForDeletion),
            (false, false) => (ConditionStatus::True, Reason::RollingOut),
        };
        self.is_deployed().then(|| Finding {
            about: PROGRESSING,
            status,
            reason,
            message: rolling.join("\n"),
        })
    }
}
