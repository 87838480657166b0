//! Weka clients against a real API server: the whole operator with its watches, nodes and kubelets played by the tests.

mod bad_input;
mod health;
mod installed;
mod killed;
mod kinds;
mod life;
mod limited;
mod mounts;
mod rig;
mod sharing;
mod switch;
