use super::*;

/// What a template without a chart comes to.
fn rendered(template: &str) -> Result<String, String> {
    let templates = Arc::new(OnceLock::new());
    let none: Lookup = Arc::new(|_, _, _, _| None);
    let parsed = Template::new("test")
        .funcs(all(&templates, none))
        .parse(template)
        .map_err(|error| error.to_string())?;
    parsed
        .execute_to_string(&Value::Nil)
        .map_err(|error| error.to_string())
}

#[test]
fn functions_do_what_sprigs_do() {
    for (template, expected) in [
        (r#"{{ default "a" "" }}{{ default "a" "b" }}"#, "ab"),
        (r#"{{ ternary "a" "b" (eq 1 2) }}"#, "b"),
        (r#"{{ "x" | quote }} {{ 1 | quote }}"#, r#""x" "1""#),
        ("{{ \"a: 1\\nb: 2\" | nindent 2 }}", "\n  a: 1\n  b: 2"),
        (
            r#"{{ join "," (uniq (prepend (list "b" "a") "a")) }}"#,
            "a,b",
        ),
        (
            r#"{{ join "," (concat (list 1) (append (list 2) 3)) }}"#,
            "1,2,3",
        ),
        (
            r#"{{ toYaml (merge (dict "a" 1) (dict "a" 2 "b" 3)) }}"#,
            "a: 1\nb: 3",
        ),
        (
            r#"{{ toYaml (mergeOverwrite (dict "a" (dict "x" 1)) (dict "a" (dict "z" 2))) }}"#,
            "a:\n  x: 1\n  z: 2",
        ),
        (r#"{{ toYaml (omit (dict "a" 1 "b" 2) "a") }}"#, "b: 2"),
        (
            r#"{{ ("a: {b: [1]}" | fromYaml).a.b }}{{ len ("" | fromYaml) }}"#,
            "[1]0",
        ),
        (
            r#"{{ kindIs "map" (dict) }}{{ kindIs "invalid" nil }}"#,
            "truetrue",
        ),
        (
            r#"{{ sub 10 3 }}{{ first (list "x") }}{{ toString 5 }}"#,
            "7x5",
        ),
        (r#"{{ len (lookup "v1" "Secret" "a" "b") }}"#, "0"),
    ] {
        assert_eq!(rendered(template).as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn what_is_not_known_is_an_error() {
    for (template, word) in [
        ("{{ env \"HOME\" }}", "env"),
        ("{{ fail \"not like this\" }}", "not like this"),
        ("{{ join \",\" \"a\" }}", "not a list"),
        ("{{ dict \"a\" }}", "in turn"),
        ("{{ include \"nowhere\" . }}", "include"),
    ] {
        let error = rendered(template).unwrap_err();
        assert!(error.contains(word), "{template}: {error}");
    }
}
