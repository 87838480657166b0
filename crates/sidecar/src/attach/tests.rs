//! The role against a real API server and a driver in memory, with the rights of upstream's attacher.

mod attaching;
mod comparing;
mod detaching;
mod scene;
mod stale;
mod taking_over;
mod trivial;
