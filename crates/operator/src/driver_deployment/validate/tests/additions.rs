use super::*;

#[test]
fn metrics_are_refused_where_no_pod_has_them() {
    let mut upstream = with("/spec/sidecars", json!({"mode": "Upstream"}));
    let mut everywhere = with("/spec/sidecars", json!({"nodeDeployment": true}));
    let mut nodes_only = good();
    for instance in [&mut everywhere, &mut nodes_only] {
        set(instance, "/spec/driverControllerTemplate", Value::Null);
    }
    for (instance, detail) in [
        (
            &mut upstream,
            "needs the built-in sidecar (`sidecars.mode: Builtin`)",
        ),
        (
            &mut everywhere,
            "the Service is for controller pods, and there are none with `sidecars.nodeDeployment: true`: remove one of \
             the two",
        ),
        (
            &mut nodes_only,
            "the Service is for controller pods, and there are none without `driverControllerTemplate`: add it, or \
             remove `metrics`",
        ),
    ] {
        for wanted in [json!({"service": true}), json!({"serviceMonitor": {}})] {
            set(instance, "/spec/metrics", wanted);
            refused(instance, &[&format!("spec.metrics: Forbidden: {detail}")]);
        }
        // Nothing is asked for.
        set(instance, "/spec/metrics", json!({"service": false}));
        check(instance).unwrap();
    }
    check(&with("/spec/metrics", json!({"service": true}))).unwrap();
}
