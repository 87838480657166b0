//! The data plane of the simulated Weka cluster: real mounts over FUSE. Needs root and /dev/fuse.

mod files;
mod hang;
mod identity;
mod permission;
mod quota;
mod rig;
mod snapshots;
