//! Compiles `proto/` without protoc, and writes the `Debug` of every message that carries secrets.
//!
//! The derived `Debug` would print credentials into any log line that shows a request. The list of such messages
//! is read from the descriptors, so a message added later cannot be forgotten.

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet};

const PROTO_DIR: &str = "../../proto";
const FILES: [&str; 2] = ["csi.proto", "registration.proto"];

/// The one name under which CSI passes credentials.
const SECRET_FIELD: &str = "secrets";
/// The kubelet puts tokens of the pod's service account in here, so it is no field to print whole.
const CONTEXT_FIELD: &str = "volume_context";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO_DIR}");
    println!("cargo::rerun-if-changed=build.rs");

    let descriptors = protox::compile(FILES, [PROTO_DIR])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    fs::write(out.join("redacted.rs"), redacted_debug(&descriptors)?)?;

    fs::write(out.join("methods.rs"), methods(&descriptors)?)?;

    tonic_prost_build::configure()
        .generate_default_stubs(true)
        // The same map type as the Kubernetes objects these maps come from, and a stable order in logs.
        .btree_map(".")
        .skip_debug(
            secret_messages(&descriptors)
                .into_iter()
                .map(|(path, _)| path),
        )
        .compile_fds(descriptors)?;
    Ok(())
}

/// Paths of all RPCs: labels of metrics must come from a closed list, a caller could send any path.
fn methods(descriptors: &FileDescriptorSet) -> Result<String, std::fmt::Error> {
    let mut code = String::from("&[\n");
    for file in &descriptors.file {
        for service in &file.service {
            for rpc in &service.method {
                let (package, service) = (file.package(), service.name());
                writeln!(code, "    \"/{package}.{service}/{}\",", rpc.name())?;
            }
        }
    }
    code.push_str("]\n");
    Ok(code)
}

/// Full proto path and descriptor of every message with secrets. They are all top-level messages of `csi.v1`;
/// a nested one would need a module path here, so it stops the build instead of going unredacted.
fn secret_messages(descriptors: &FileDescriptorSet) -> Vec<(String, &DescriptorProto)> {
    let mut found = Vec::new();
    for file in &descriptors.file {
        for message in &file.message_type {
            assert!(
                !message.nested_type.iter().any(has_secrets),
                "a message nested in {} has secrets: teach build.rs its module path",
                message.name()
            );
            if has_secrets(message) {
                assert_eq!(file.package(), "csi.v1", "secrets outside csi.v1");
                found.push((format!(".{}.{}", file.package(), message.name()), message));
            }
        }
    }
    found
}

fn has_secrets(message: &DescriptorProto) -> bool {
    message
        .field
        .iter()
        .any(|field| field.name() == SECRET_FIELD)
}

fn redacted_debug(descriptors: &FileDescriptorSet) -> Result<String, std::fmt::Error> {
    let mut code = String::new();
    for (_, message) in secret_messages(descriptors) {
        let name = message.name();
        writeln!(code, "impl ::core::fmt::Debug for {name} {{")?;
        writeln!(
            code,
            "    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {{"
        )?;
        writeln!(code, "        f.debug_struct({name:?})")?;
        for field in &message.field {
            let field = field.name();
            let value = match field {
                SECRET_FIELD => format!("&super::redacted::Secrets(&self.{field})"),
                CONTEXT_FIELD => format!("&super::redacted::Context(&self.{field})"),
                _ => format!("&self.{field}"),
            };
            writeln!(code, "            .field({field:?}, {value})")?;
        }
        writeln!(code, "            .finish()\n    }}\n}}")?;
    }
    Ok(code)
}
