//! How the binary is linked.

#![allow(clippy::print_stdout, reason = "this is how cargo is told something")]

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |part: &str| env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    // Tens of thousands of pointers to be set at the start, packed into bits: a twentieth of the binary, all of which
    // every process would read. glibc knows this form from 2.36 on.
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
