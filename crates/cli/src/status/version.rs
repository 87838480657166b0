//! Which servers we work with.

use k8s_openapi::apimachinery::pkg::version::Info;

/// The oldest Kubernetes that is supported.
const OLDEST: (u32, u32) = (1, 20);

/// The server's version as people write it, or a sentence that it is too old.
pub fn check(info: &Info) -> anyhow::Result<String> {
    // Vendors append to the minor version: `20+`.
    let number = |text: &str| {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        digits.parse::<u32>().ok()
    };
    let (major, minor) = OLDEST;
    match number(&info.major).zip(number(&info.minor)) {
        Some(version) if version < OLDEST => anyhow::bail!(
            "the cluster runs Kubernetes {}, older than {major}.{minor}, the oldest that stowage supports: \
             upgrade the cluster",
            info.git_version
        ),
        // A version we cannot read is no reason to refuse.
        _ => Ok(info.git_version.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(major: &str, minor: &str) -> Info {
        Info {
            major: major.to_owned(),
            minor: minor.to_owned(),
            git_version: format!("v{major}.{minor}.0"),
            ..Info::default()
        }
    }

    #[test]
    fn supported_servers_pass() {
        for minor in ["20", "20+", "36", "100"] {
            assert_eq!(check(&info("1", minor)).unwrap(), format!("v1.{minor}.0"));
        }
        assert!(check(&info("2", "0")).is_ok());
        assert!(check(&info("", "")).is_ok());
    }

    #[test]
    fn older_servers_get_one_clear_sentence() {
        let error = check(&info("1", "19+")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the cluster runs Kubernetes v1.19+.0, older than 1.20, the oldest that stowage supports: \
             upgrade the cluster"
        );
        assert!(check(&info("1", "9")).is_err());
    }
}
