//! A real Kubernetes on one Debian machine, for development and tests.
