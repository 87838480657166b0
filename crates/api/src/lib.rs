//! Custom resources, names and conditions: pure data, no I/O.
