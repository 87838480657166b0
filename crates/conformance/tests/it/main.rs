//! The suite against a small driver in memory, over a real socket.
//!
//! - `memory`: the driver, which has every capability and breaks one promise when told to
//! - `good`: it passes; drivers that can do less are skipped and not failed
//! - `faults`: each broken promise is found, and every case finds one
//! - `endings`: drivers that are missing, not ready, late, or die; runs that are interrupted
//! - `command`: arguments, output, files and exit codes

mod command;
mod endings;
mod faults;
mod good;
mod memory;
