//! How arrays are reached: with access keys in Secrets, and over HTTPS with certificates that are trusted.

use serde_json::{Value, json};
use stowage_api::vpsa::Vpsa;
use stowage_sim::vpsa::Array;
use tempfile::TempDir;

use crate::vsc::rig::{Rig, array};
use crate::vsc::rights::NAMESPACE;
use crate::vsc::volumes::ready;

/// A VPSA of the class `gold` whose key or TLS is another than usual.
async fn vpsa(rig: &Rig, array: &Array, more: Value) {
    let mut spec =
        json!({"VSCStorageClassName": "gold", "displayName": "one", "hostname": array.hostname()});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let object = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VPSA", "metadata": {"name": "one"}, "spec": spec});
    rig.create::<Vpsa>(object).await;
}

/// Writes a Secret.
fn write_secret(rig: &Rig, key: &str, value: &str) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vpsa-one", "namespace": NAMESPACE},
        "stringData": {key: value}});
    rig.apply(&secret.to_string());
}

fn message(vpsa: &Value) -> &str {
    let message = &vpsa["status"]["conditions"][0]["message"];
    message.as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_access_key_in_a_secret_is_waited_for_and_a_new_one_is_used_by_itself() {
    let rig = Rig::start().await;
    let (array, _data) = array(|_| {}).await;
    rig.class("gold", json!({})).await;
    let by_secret =
        json!({"tokenSecretRef": {"name": "vpsa-one", "key": "key"}, "tls": {"enabled": false}});
    vpsa(&rig, &array, by_secret).await;
    let missing = rig.vpsa_is("one", "Unreachable", "InvalidSpec").await;
    let says = "secret `csi-vpsa/vpsa-one` does not exist: create it, or correct `tokenSecretRef`";
    assert_eq!(message(&missing), says);
    assert_eq!(rig.event("one", "Unreachable").await, says);

    write_secret(&rig, "token", array.access_key());
    let other = |it: &Value| message(it).contains("`vpsa-one` has no key `key`");
    rig.until::<Vpsa>("one", other).await;
    // As it is written by an editor.
    write_secret(&rig, "key", &format!("{}\n", array.access_key()));
    let reached = rig.vpsa_is("one", "Ready", "Ready").await;
    assert!(reached["spec"]["token"].is_null(), "{reached:#}");
    assert!(
        !reached.to_string().contains(array.access_key()),
        "{reached:#}"
    );
    rig.volume("before", "10Gi", json!({})).await;
    ready(&rig, "before").await;

    array.control().set_access_key("RENEWED-2").await.unwrap();
    rig.vpsa_is("one", "Unreachable", "Credentials").await;
    write_secret(&rig, "key", "RENEWED-2");
    rig.vpsa_is("one", "Ready", "Ready").await;
    rig.volume("after", "10Gi", json!({})).await;
    ready(&rig, "after").await;
}

/// An array that shows a certificate which nobody but itself has signed.
async fn self_signed_array(authority: &Array) -> (Array, TempDir) {
    array(|options| {
        std::fs::create_dir_all(&options.data).unwrap();
        for (theirs, own) in [("ca.pem", "server.pem"), ("ca.key", "server.key")] {
            std::fs::copy(authority.data().join(theirs), options.data.join(own)).unwrap();
        }
        options.plain_http = false;
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_is_trusted_by_its_authority_by_its_own_certificate_or_blindly_and_not_otherwise()
{
    let rig = Rig::start().await;
    let (signed, _signed) = array(|options| options.plain_http = false).await;
    let (own, _own) = self_signed_array(&signed).await;
    rig.class("gold", json!({})).await;
    let token = json!({"token": signed.access_key()});
    vpsa(&rig, &signed, token).await;
    let unknown = rig.vpsa_is("one", "Unreachable", "Certificate").await;
    let said = message(&unknown);
    assert!(said.contains("tls.caCertificate"), "{said}");
    assert_eq!(rig.event("one", "Unreachable").await, said);

    let certificate = signed.ca_certificate().unwrap();
    let nothing = json!({"caCertificate": null, "insecureSkipVerify": null});
    for array in [&signed, &own] {
        for trusted in [
            json!({"caCertificate": certificate}),
            json!({"insecureSkipVerify": true}),
        ] {
            let place = json!({"hostname": array.hostname(), "tls": trusted});
            rig.patch::<Vpsa>("one", json!({ "spec": place })).await;
            rig.vpsa_is("one", "Ready", "Ready").await;
            rig.patch::<Vpsa>("one", json!({"spec": {"tls": nothing}}))
                .await;
            rig.vpsa_is("one", "Unreachable", "Certificate").await;
        }
    }
    let not_one = json!({"spec": {"tls": {"caCertificate": "not a certificate"}}});
    rig.patch::<Vpsa>("one", not_one).await;
    let not_valid = |it: &Value| message(it).contains("the CA certificate is not valid");
    rig.until::<Vpsa>("one", not_valid).await;
}
