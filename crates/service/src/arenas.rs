//! The limit on malloc arenas.
//!
//! glibc gives every thread that allocates an arena of its own, up to eight per core, and each keeps the memory that
//! was once freed in it. A process with a handful of mostly idle threads then holds a multiple of what it needs.

/// Two arenas: one for the main thread, one for all others to share.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 2;

/// Limits glibc to two arenas; elsewhere does nothing.
///
/// Call it before the first thread starts where possible: arenas that exist already stay. Called twice: no effect.
#[cfg(target_env = "gnu")]
#[allow(
    unsafe_code,
    reason = "mallopt has no safe wrapper, and the environment variable would need a re-exec"
)]
pub fn limit() {
    // SAFETY: mallopt takes two integers, locks the allocator itself and touches no memory of ours.
    let accepted = unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
    debug_assert_eq!(accepted, 1, "glibc refused M_ARENA_MAX");
}

/// Other C libraries have one heap for all threads.
#[cfg(not(target_env = "gnu"))]
pub fn limit() {}
