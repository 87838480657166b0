//! What the array was asked, by its own count: a client cannot forget a request.

use std::collections::BTreeMap;

use stowage_sim::control::SeenRequest;

/// Requests by method and route.
pub struct Seen(BTreeMap<String, usize>);

impl Seen {
    pub fn of(requests: &[SeenRequest]) -> Self {
        let mut counts = BTreeMap::new();
        for request in requests {
            let route = format!("{} {}", request.method, route(&request.path));
            *counts.entry(route).or_default() += 1;
        }
        Self(counts)
    }

    pub fn count(&self) -> usize {
        self.0.values().sum()
    }

    /// Every kind of request with its number.
    pub fn summary(&self) -> String {
        if self.0.is_empty() {
            return "none".to_owned();
        }
        let shown = self
            .0
            .iter()
            .map(|(route, count)| format!("{count} {route}"));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// The path without what differs from one object to the next: every second part.
fn route(path: &str) -> String {
    let part = |(number, part)| if number % 2 == 1 { "*" } else { part };
    let parts: Vec<&str> = path.split('/').enumerate().map(part).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_kind_are_counted_together() {
        let request = |method: &str, path: &str| SeenRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: String::new(),
            status: 200,
            endpoint: 0,
        };
        let seen = Seen::of(&[
            request("PUT", "fileSystems/a/quota/1"),
            request("GET", "fileSystems/a/quota/1"),
            request("PUT", "fileSystems/b/quota/2"),
            request("GET", "fileSystems"),
        ]);
        assert_eq!(seen.count(), 4);
        assert_eq!(
            seen.summary(),
            "1 GET fileSystems, 1 GET fileSystems/*/quota/*, 2 PUT fileSystems/*/quota/*"
        );
    }
}
