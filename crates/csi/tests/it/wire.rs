//! The compiled descriptors and the table of the interface say the same, in both directions.
//!
//! A number that differs from the specification is not an error anywhere else: bytes would silently mean
//! something different to the kubelet.

use std::collections::BTreeSet;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet,
};

const TABLE: &str = include_str!("wire.txt");

#[test]
fn descriptors_equal_the_table() {
    let table = table_lines();
    let built = descriptor_lines();
    let missing: Vec<_> = table.difference(&built).collect();
    let unexpected: Vec<_> = built.difference(&table).collect();
    assert!(
        missing.is_empty() && unexpected.is_empty(),
        "in the table only: {missing:#?}\nin the descriptors only: {unexpected:#?}"
    );
}

#[test]
fn the_table_is_whole() {
    let kinds = |kind: &str| {
        table_lines()
            .iter()
            .filter(|line| line.split(' ').nth(1) == Some(kind))
            .count()
    };
    assert_eq!(kinds("service"), 6);
    assert_eq!(kinds("rpc"), 34);
    assert_eq!(kinds("message"), 94 + 4);
    assert_eq!(kinds("enum"), 8);
}

/// Lines of the table, each prefixed with its package; a line that occurs twice is a mistake in the table.
fn table_lines() -> BTreeSet<String> {
    let mut package = "";
    let mut lines = BTreeSet::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("package ") {
            package = name;
            continue;
        }
        assert!(
            lines.insert(format!("{package} {line}")),
            "twice in the table: {line}"
        );
    }
    lines
}

/// The descriptors in the words of the table.
fn descriptor_lines() -> BTreeSet<String> {
    let set = FileDescriptorSet::decode(stowage_csi::proto::DESCRIPTORS).expect("descriptors");
    let mut lines = BTreeSet::new();
    for file in set
        .file
        .iter()
        .filter(|file| file.package() != "google.protobuf")
    {
        assert_eq!(file.syntax(), "proto3");
        let mut own = Vec::new();
        describe_services(file, &mut own);
        for message in &file.message_type {
            describe_message("", message, &mut own);
        }
        for item in &file.enum_type {
            describe_enum("", item, &mut own);
        }
        lines.extend(
            own.into_iter()
                .map(|line| format!("{} {line}", file.package())),
        );
    }
    lines
}

fn describe_services(file: &FileDescriptorProto, lines: &mut Vec<String>) {
    let local = |name: &str| {
        let prefix = format!(".{}.", file.package());
        name.strip_prefix(&prefix).unwrap_or(name).to_owned()
    };
    for service in &file.service {
        lines.push(format!("service {}", service.name()));
        for rpc in &service.method {
            let mut line = format!(
                "rpc {}.{} {} {}",
                service.name(),
                rpc.name(),
                local(rpc.input_type()),
                local(rpc.output_type())
            );
            if rpc.server_streaming() {
                line.push_str(" stream");
            }
            if rpc.client_streaming() {
                line.push_str(" client-stream");
            }
            lines.push(line);
        }
    }
}

fn describe_message(outer: &str, message: &DescriptorProto, lines: &mut Vec<String>) {
    let name = format!("{outer}{}", message.name());
    lines.push(format!("message {name}"));
    for oneof in &message.oneof_decl {
        lines.push(format!("oneof {name}.{}", oneof.name()));
    }
    for field in &message.field {
        assert!(
            !field.proto3_optional(),
            "{name}.{}: the interface has no optional fields",
            field.name()
        );
        let mut line = format!(
            "field {name}.{} {} {}",
            field.name(),
            type_of(message, field),
            field.number()
        );
        if let Some(index) = field.oneof_index {
            let oneof = message.oneof_decl[usize::try_from(index).expect("an index")].name();
            line += " of ";
            line += oneof;
        }
        // The build hides exactly the fields of this name, the table marks them from the specification.
        if field.name() == "secrets" {
            line.push_str(" secret");
        }
        lines.push(line);
    }
    let outer = format!("{name}.");
    for nested in &message.nested_type {
        if !nested
            .options
            .as_ref()
            .is_some_and(prost_types::MessageOptions::map_entry)
        {
            describe_message(&outer, nested, lines);
        }
    }
    for nested in &message.enum_type {
        describe_enum(&outer, nested, lines);
    }
}

fn describe_enum(outer: &str, item: &EnumDescriptorProto, lines: &mut Vec<String>) {
    let name = format!("{outer}{}", item.name());
    lines.push(format!("enum {name}"));
    for value in &item.value {
        lines.push(format!("value {name}.{} {}", value.name(), value.number()));
    }
}

fn type_of(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let scalar = match field.r#type() {
        Type::String => "string".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int32 => "int32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::Message | Type::Enum => {
            let full = field.type_name();
            let short = full.rsplit('.').next().unwrap_or(full);
            if let Some(entry) = message
                .nested_type
                .iter()
                .find(|nested| nested.name() == short)
                && entry
                    .options
                    .as_ref()
                    .is_some_and(prost_types::MessageOptions::map_entry)
            {
                assert!(entry.field.iter().all(|part| part.r#type() == Type::String));
                return "map".to_owned();
            }
            if full.starts_with(".google.protobuf.") {
                format!("pb.{short}")
            } else {
                short.to_owned()
            }
        }
        other => format!("{other:?}"),
    };
    if field.label() == Label::Repeated {
        format!("rep:{scalar}")
    } else {
        scalar
    }
}
