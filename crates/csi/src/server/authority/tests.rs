use std::fmt::Write as _;

use super::*;

/// `:authority` as a byte.
const NAME: u8 = 1;

/// The Huffman code of the characters that paths are made of, by length.
const CODE: [(u32, u32, &str); 4] = [
    (5, 0x00, "012aceiost"),
    (6, 0x14, " %-./3456789=A_bdfghlmnpru"),
    (7, 0x5c, ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, 0xf8, "&*,;XZ"),
];

fn huffman(text: &str) -> Vec<u8> {
    let mut bits = String::new();
    for character in text.chars() {
        let (length, code) = CODE
            .iter()
            .find_map(|(length, first, symbols)| {
                let index = symbols.find(character)?;
                Some((*length as usize, *first as usize + index))
            })
            .unwrap();
        write!(bits, "{code:0length$b}").unwrap();
    }
    while !bits.len().is_multiple_of(8) {
        bits.push('1');
    }
    bits.as_bytes()
        .chunks(8)
        .map(|byte| u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 2).unwrap())
        .collect()
}

/// A literal header field that is added to the table, its name taken from the static table.
fn literal(name: u8, text: &[u8], huffman: bool) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    assert!(length < 0x7f);
    let mut field = vec![0x40 | name, length | if huffman { 0x80 } else { 0 }];
    field.extend_from_slice(text);
    field
}

#[test]
fn the_test_encodes_as_the_rfc_does() {
    let expected = [
        0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
    ];
    assert_eq!(huffman("www.example.com"), expected);
}

#[test]
fn a_path_becomes_a_name_of_the_same_length() {
    for (sent, mended) in [
        (
            "/var/lib/kubelet/plugins/X.csi,a/csi.sock",
            "-var-lib-kubelet-plugins-X.csi,a-csi.sock",
        ),
        ("%2Fcsi%2Fcsi.sock", "-2Fcsi-2Fcsi.sock"),
        ("localhost", "localhost"),
        ("////////", "--------"),
        ("", ""),
    ] {
        let mut text = huffman(sent);
        mend_huffman(&mut text);
        assert_eq!(text, huffman(mended), "{sent}");

        let mut text = sent.as_bytes().to_vec();
        mend_plain(&mut text);
        assert_eq!(text, mended.as_bytes());
    }
}

#[test]
fn every_character_keeps_its_place() {
    for (_, _, symbols) in CODE {
        for symbol in symbols.chars() {
            let mut text = huffman(&format!("a{symbol}/{symbol}z"));
            mend_huffman(&mut text);
            let symbol = if "/%".contains(symbol) { '-' } else { symbol };
            assert_eq!(text, huffman(&format!("a{symbol}-{symbol}z")), "{symbol}");
        }
    }
}

#[test]
fn only_the_authority_is_mended() {
    let path = huffman("/csi.v1.Identity/Probe");
    let mut block = vec![0x83, 0x86, 0x3f, 0xe1, 0x1f];
    block.extend(literal(4, &path, true));
    block.extend(literal(0, b"x/y", false));
    block.extend([3, b'a', b'/', b'b']);
    let before = block.clone();
    block.extend(literal(NAME, b"/csi/csi.sock", false));
    assert_eq!(mend_block(&mut block), Some(()));

    let mut expected = before;
    expected.extend(literal(NAME, b"-csi-csi.sock", false));
    assert_eq!(block, expected);
}

#[test]
fn padding_and_priority_stand_around_the_block() {
    let mut payload = vec![4, 0, 0, 0, 0, 15];
    payload.extend(literal(NAME, b"/a/b", false));
    payload.extend(*b"////");
    mend_headers(&mut payload, FLAG_PADDED | FLAG_PRIORITY);
    assert!(payload.ends_with(b"-a-b////"));
}

#[test]
fn nonsense_passes_unchanged_and_does_not_panic() {
    for seed in 0..=u8::MAX {
        for length in 0..12_u8 {
            let mut block: Vec<u8> = (0..length)
                .map(|index| seed.wrapping_mul(31).wrapping_add(index.wrapping_mul(97)))
                .collect();
            let _ = mend_block(&mut block);
            mend_headers(&mut block, FLAG_PADDED | FLAG_PRIORITY);
            mend_huffman(&mut block);
        }
    }
    // A literal that promises more than there is.
    let mut cut = literal(NAME, b"/csi/csi.sock", false);
    cut.truncate(6);
    let before = cut.clone();
    assert_eq!(mend_block(&mut cut), None);
    assert_eq!(cut, before);
}

#[tokio::test]
async fn frames_are_mended_however_they_are_cut() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let frame = |kind: u8, payload: &[u8]| {
        let mut frame = vec![
            0,
            0,
            u8::try_from(payload.len()).unwrap(),
            kind,
            4,
            0,
            0,
            0,
            1,
        ];
        frame.extend_from_slice(payload);
        frame
    };
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut expected = sent.clone();
    for (kind, payload) in [(4, &b""[..]), (0, b"A/B"), (6, b"12345678")] {
        sent.extend(frame(kind, payload));
        expected.extend(frame(kind, payload));
    }
    sent.extend(frame(1, &literal(NAME, b"/a/b", false)));
    expected.extend(frame(1, &literal(NAME, b"-a-b", false)));
    // The last frame stays incomplete: the other side hangs up.
    sent.extend_from_slice(&[0, 0, 9, 1]);
    expected.extend_from_slice(&[0, 0, 9, 1]);

    for step in [1, 2, 7, 30, sent.len()] {
        let (mut client, server) = UnixStream::pair().unwrap();
        let mut server = MendedStream::new(server);
        let pieces: Vec<Vec<u8>> = sent.chunks(step).map(<[u8]>::to_vec).collect();
        let writer = tokio::spawn(async move {
            for piece in pieces {
                client.write_all(&piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let mut received = Vec::new();
        server.read_to_end(&mut received).await.unwrap();
        writer.await.unwrap();
        assert_eq!(received, expected, "in pieces of {step}");
    }
}
