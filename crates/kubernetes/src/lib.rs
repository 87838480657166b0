//! What every process that talks to an API server needs, whatever it does there.
//!
//! | module | holds |
//! |---|---|
//! | [`reduced`], [`raw`] | kinds of which only a few fields are decoded, or none |
//! | [`served`] | kinds in another version than they were written for |
//! | [`store`] | the objects of one kind, found by key or group |
//! | [`watch`], [`reading`] | the task that keeps a store current and tells listeners; what it makes of an object |
//! | [`queue`] | work that waits, one entry per object, with its back-off |
//! | [`events`] | what users read with `kubectl describe` |
//! | [`answer`], [`object_error`] | what the server's answers mean, and how errors are told |
//! | [`json_patch`], [`metadata`], [`finalizer`], [`deletion`] | writes that lose nothing of others |
//! | [`secrets`], [`secret_template`] | the content of secrets, and where a class says that they are |
//! | [`discovery`], [`rights`] | what the server can do, and what this process may: asked, never guessed |
//! | [`pages`] | long lists, page by page |
//! | [`pod_claims`] | which claims the volumes of pods use |
//! | [`patience`] | asks again until a server is there, or a kind |
//!
//! Nothing here knows of a driver or of a role.

// So that the macro of this crate can name it the same way everywhere.
extern crate self as stowage_kubernetes;

pub mod answer;
pub mod deletion;
pub mod discovery;
pub mod events;
pub mod finalizer;
pub mod json_patch;
pub mod metadata;
pub mod object_error;
pub mod pages;
pub mod patience;
pub mod pod_claims;
pub mod queue;
pub mod raw;
pub mod reading;
pub mod reduced;
pub mod rights;
pub mod secret_template;
pub mod secrets;
pub mod served;
pub mod store;
pub mod watch;
