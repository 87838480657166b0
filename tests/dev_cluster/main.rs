//! End-to-end tests of the dev cluster itself. They start, stop and break clusters and nodes of this machine.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
// A test that cannot go on should say where: that is what unwrap does.
#![allow(clippy::unwrap_used)]

// The name of every test here begins with `dev_cluster`: that is how `./x test` leaves them out on a cluster of the
// user's own.
#[path = "."]
mod dev_cluster {
    mod bad_input;
    mod chart_life;
    mod charts;
    mod claims;
    mod configured;
    mod demo;
    mod documented;
    mod draining;
    mod driver_on_node;
    mod hostpath;
    mod hostpath_shapes;
    mod isolation;
    mod killed;
    mod life;
    mod lifecycle;
    mod node_loss;
    mod operator_trouble;
    mod outage;
    mod shape;
    mod sidecar;
    mod traces;
    mod upgrade;
    mod vpsa;
    mod vpsa_arrays;
    mod vpsa_away;
    mod vpsa_guarded;
    mod vpsa_import;
    mod vpsa_lost;
    mod vpsa_trouble;
    mod weka;
    mod weka_array;
    mod weka_backings;
    mod weka_chart_release;
    mod weka_chart_upgrade;
    mod weka_clients;
    mod weka_clients_going;
    mod weka_clients_second;
    mod weka_clients_seen;
    mod weka_clusters;
    mod weka_guarded;
    mod weka_migration;
    mod weka_nfs;
    mod weka_old;
    mod weka_owned;
    mod weka_pair;
    mod weka_secure;
    mod weka_selinux;
    mod weka_shared;
    mod weka_takeover;
    mod weka_volumes;
}
