//! Where a driver listens: a UNIX socket, written the way people write it.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longest path a UNIX socket address holds: 108 bytes with the closing zero.
const MAX_PATH: usize = 107;

/// The socket of a driver. `unix:///csi/csi.sock`, `unix:/csi/csi.sock` and `/csi/csi.sock` mean the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EndpointError {
    /// Nothing after the scheme.
    #[error("the endpoint `{0}` names no socket path")]
    PathMissing(String),
    /// Something like `tcp://`.
    #[error("the endpoint `{0}` is not a UNIX socket: CSI uses UNIX sockets only")]
    OtherScheme(String),
    /// The kernel refuses such an address, with an error that says nothing about lengths.
    #[error("the socket path `{path}` is {length} bytes long: at most {MAX_PATH} are allowed")]
    PathTooLong {
        /// The path.
        path: String,
        /// Its length in bytes.
        length: usize,
    },
    /// A path with a zero byte in it.
    #[error("the endpoint `{}` contains a zero byte", .0.escape_debug())]
    ZeroByte(String),
}

impl Endpoint {
    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl TryFrom<&Path> for Endpoint {
    type Error = EndpointError;

    fn try_from(path: &Path) -> Result<Self, EndpointError> {
        let bytes = path.as_os_str().as_bytes();
        let shown = || path.display().to_string();
        if bytes.is_empty() {
            return Err(EndpointError::PathMissing(shown()));
        }
        if bytes.contains(&0) {
            return Err(EndpointError::ZeroByte(shown()));
        }
        if bytes.len() > MAX_PATH {
            return Err(EndpointError::PathTooLong {
                path: shown(),
                length: bytes.len(),
            });
        }
        Ok(Self(path.to_owned()))
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let path = match text.split_once(':') {
            Some(("unix", rest)) => rest.strip_prefix("//").unwrap_or(rest),
            Some((_, rest)) if rest.starts_with("//") => {
                return Err(EndpointError::OtherScheme(text.to_owned()));
            }
            // A colon is an ordinary character in a path.
            _ => text,
        };
        if path.is_empty() {
            return Err(EndpointError::PathMissing(text.to_owned()));
        }
        Self::try_from(Path::new(path))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_spellings_mean_the_same_socket() {
        for text in [
            "unix:///csi/csi.sock",
            "unix:/csi/csi.sock",
            "/csi/csi.sock",
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.path(), Path::new("/csi/csi.sock"), "{text}");
            assert_eq!(endpoint.to_string(), "unix:///csi/csi.sock");
        }
    }

    #[test]
    fn a_colon_in_a_path_is_no_scheme() {
        let endpoint: Endpoint = "/run/a:b/csi.sock".parse().unwrap();
        assert_eq!(endpoint.path(), Path::new("/run/a:b/csi.sock"));
    }

    #[test]
    fn what_is_no_unix_socket_is_refused() {
        for text in ["tcp://127.0.0.1:10000", "http://csi"] {
            let refused = EndpointError::OtherScheme(text.to_owned());
            assert_eq!(text.parse::<Endpoint>(), Err(refused));
        }
        for text in ["", "unix:", "unix://"] {
            let refused = EndpointError::PathMissing(text.to_owned());
            assert_eq!(text.parse::<Endpoint>(), Err(refused));
        }
        assert!(matches!(
            "/a\0b".parse::<Endpoint>(),
            Err(EndpointError::ZeroByte(_))
        ));
    }

    #[test]
    fn the_longest_path_has_107_bytes() {
        let longest = format!("/{}", "x".repeat(106));
        assert!(longest.parse::<Endpoint>().is_ok());

        let error = format!("unix://{longest}y")
            .parse::<Endpoint>()
            .unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("is 108 bytes long: at most 107 are allowed"),
            "{error}"
        );
    }
}
