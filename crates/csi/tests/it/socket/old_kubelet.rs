//! Kubelets before 1.26 send the path of the socket as authority.

use crate::socket::driver::Served;
use crate::socket::raw::{AUTHORITY, Ended, RawClient, field};

async fn probe(client: &mut RawClient, authority: Vec<u8>) -> Ended {
    client
        .call("/csi.v1.Identity/Probe", &[authority], &[])
        .await
}

#[tokio::test]
async fn a_path_as_authority_is_accepted() {
    let served = Served::start();
    let mut client = RawClient::connect(served.endpoint.path()).await;
    let answered = Ended::WithData;

    let path = field(AUTHORITY, &["/var/lib/kubelet/plugins/x/csi.sock"]);
    assert_eq!(probe(&mut client, path).await, answered);
    // The second call names the header by its place in the table, which must hold the same on both sides:
    // three fields were added after it, and the newest has number 62.
    assert_eq!(probe(&mut client, vec![0x80 + 65]).await, answered);
    for text in ["%2Fcsi%2Fcsi.sock", "unix:///csi/csi.sock", "localhost"] {
        let authority = field(AUTHORITY, &[text]);
        assert_eq!(probe(&mut client, authority).await, answered, "{text}");
    }
    // Go's encoder compresses: this is "/csi/csi.sock" in the Huffman code.
    let mut compressed = vec![0x41, 0x80 + 9];
    compressed.extend([0x60, 0x88, 0x33, 0x04, 0x41, 0x97, 0x41, 0xc9, 0xd7]);
    assert_eq!(probe(&mut client, compressed).await, answered);
    // What is no authority even then is still refused.
    let nonsense = field(AUTHORITY, &["a b"]);
    assert_eq!(probe(&mut client, nonsense).await, Ended::Reset);
}
