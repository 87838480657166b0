//! What every long-running process has: logs, metrics, health, shutdown, leader lease.
