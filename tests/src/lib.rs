//! End-to-end tests on the dev cluster; they live in `e2e/`.
