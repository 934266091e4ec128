use std::borrow::Cow;

use proptest::prelude::*;

use super::PathError::{self, *};
use super::{for_matching, normalize};

fn normal(path: &str) -> Result<String, PathError> {
    normalize(path.as_bytes()).map(Cow::into_owned)
}

fn matched(path: &str) -> Result<String, PathError> {
    for_matching(&normal(path)?).map(Cow::into_owned)
}

#[test]
fn every_spelling_has_one_normal_form() {
    for (path, want) in [
        ("", "/"),
        ("/", "/"),
        ("/orders", "/orders"),
        ("/orders/", "/orders/"),
        ("/Orders", "/Orders"),
        // Slashes.
        ("//", "/"),
        ("//orders", "/orders"),
        ("/orders//7", "/orders/7"),
        ("/orders///", "/orders/"),
        // Dot segments.
        ("/.", "/"),
        ("/./orders", "/orders"),
        ("/orders/.", "/orders/"),
        ("/orders/..", "/"),
        ("/orders/../admin", "/admin"),
        ("/orders/7/..", "/orders/"),
        ("/orders/7/../", "/orders/"),
        ("/a/b/../../c", "/c"),
        ("/a//../b", "/b"),
        ("/a;x/../b", "/b"),
        // Dots that are no dot segments.
        ("/...", "/..."),
        ("/.well-known/x", "/.well-known/x"),
        ("/..a/b..", "/..a/b.."),
        // Encoded unreserved characters, dots among them.
        ("/%6frders", "/orders"),
        ("/%6F%72%64%65%72%73", "/orders"),
        ("/%7Eme/%2D%5F", "/~me/-_"),
        ("/a/%2e%2e/b", "/b"),
        ("/a/%2E./b", "/b"),
        ("/a/.%2e/b", "/b"),
        ("/a/%2e/b", "/a/b"),
        // What stays encoded.
        ("/a%20b", "/a%20b"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/caf\u{e9}", "/caf%C3%A9"),
        ("/a%3ab", "/a%3Ab"),
        ("/a%3bb", "/a%3Bb"),
        ("/..%3Bx", "/..%3Bx"),
        ("/%252e%252e/a", "/%252e%252e/a"),
        ("/%252F", "/%252F"),
        ("/a%3Fb%23c", "/a%3Fb%23c"),
        // What clients send raw and should not.
        ("/{id}", "/%7Bid%7D"),
        ("/a[0]|<b>^`\"", "/a%5B0%5D%7C%3Cb%3E%5E%60%22"),
        // Parameters are kept, and go on to the upstream.
        ("/orders;v=1/7;w", "/orders;v=1/7;w"),
        ("/!$&'()*+,:=@", "/!$&'()*+,:=@"),
    ] {
        assert_eq!(normal(path).as_deref(), Ok(want), "{path}");
    }
    assert_eq!(normalize(b"/\xff").as_deref(), Ok("/%FF"));
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    for (path, want) in [
        ("orders", NotAbsolute),
        ("*", NotAbsolute),
        ("http://a/b", NotAbsolute),
        ("%2Forders", NotAbsolute),
        ("/a%2Fb", Encoded("slash (%2F)")),
        ("/a%2fb", Encoded("slash (%2F)")),
        ("/..%2f..%2fadmin", Encoded("slash (%2F)")),
        ("/a%5cb", Encoded("backslash (%5C)")),
        ("/a%5Cb", Encoded("backslash (%5C)")),
        ("/a%00", Encoded("NUL (%00)")),
        ("/a\\b", Backslash),
        ("/a\\..\\b", Backslash),
        ("/%", BadPercent),
        ("/a%2", BadPercent),
        ("/a%zz", BadPercent),
        ("/a%2/b", BadPercent),
        ("/a%%41", BadPercent),
        ("/%u002e", BadPercent),
        ("/a b", Forbidden(b' ')),
        ("/a\tb", Forbidden(b'\t')),
        ("/a\r\nb", Forbidden(b'\r')),
        ("/a\0", Forbidden(0)),
        ("/a\x7f", Forbidden(0x7F)),
        ("/a?b", Forbidden(b'?')),
        ("/a#b", Forbidden(b'#')),
        ("/..", AboveRoot),
        ("/../", AboveRoot),
        ("/../admin", AboveRoot),
        ("/a/../../b", AboveRoot),
        ("/a/..//../b", AboveRoot),
        ("/%2e%2e/b", AboveRoot),
        ("/./..", AboveRoot),
        ("/a/..;/b", DotParameters),
        ("/a/..;x=1", DotParameters),
        ("/a/.;/b", DotParameters),
        ("/a/%2e%2E;x/b", DotParameters),
    ] {
        assert_eq!(normal(path), Err(want), "{path}");
    }
}

#[test]
fn a_normal_path_is_not_copied() {
    for path in [
        "/",
        "/orders",
        "/orders/7/",
        "/a%20b/.c",
        "/a;x/b%3Bc",
        "/..a",
    ] {
        let normal = normalize(path.as_bytes()).unwrap();
        assert!(matches!(normal, Cow::Borrowed(_)), "{path}");
    }
    for path in ["/", "/orders/7/", "/a%20b/.c", "/a%3Bb", "/caf%C3%A9"] {
        assert!(matches!(for_matching(path), Ok(Cow::Borrowed(_))), "{path}");
    }
}

#[test]
fn matching_sees_neither_parameters_nor_needless_encoding() {
    for (path, want) in [
        ("/orders;v=1", "/orders"),
        ("/orders;v=1/7;w=2;x", "/orders/7"),
        ("/orders;", "/orders"),
        ("/orders;v=1/", "/orders/"),
        ("/orders;a%20b/7", "/orders/7"),
        ("/orders;a:b%40", "/orders"),
        ("/orders/;jsessionid=1", "/orders/"),
        ("/;jsessionid=1", "/"),
        ("/orders%3Bv=1", "/orders%3Bv=1"),
        ("/orders%3Abatch", "/orders:batch"),
        ("/users/%40me", "/users/@me"),
        ("/%21%24%26%27%28%29%2A%2B%2C%3D", "/!$&'()*+,="),
        ("/a%20b%3ac", "/a%20b:c"),
        ("/%253A", "/%253A"),
        ("/a..;x", "/a.."),
    ] {
        assert_eq!(matched(path).as_deref(), Ok(want), "{path}");
    }
    for (path, want) in [
        ("/a/;x/b", OnlyParameters),
        ("/;x/b", OnlyParameters),
        ("/a/;/", OnlyParameters),
    ] {
        assert_eq!(matched(path), Err(want), "{path}");
    }
    // Not a normal form, but no way around either.
    assert_eq!(for_matching("/a/..;x/b"), Err(DotParameters));
    assert_eq!(for_matching("/a/.;x"), Err(DotParameters));
}

/// Any way to spell a path that means `segments`, as clients may send it.
fn spelled(segments: Vec<String>) -> impl Strategy<Value = (String, String)> {
    let plain = format!("/{}", segments.join("/"));
    let pieces: Vec<_> = segments
        .into_iter()
        .map(|segment| {
            let bytes = segment.into_bytes();
            let spelling = prop::collection::vec(0..3_u8, bytes.len());
            let detour = prop::sample::select(vec![
                "/",
                "//",
                "/./",
                "/x/../",
                "/%2e/",
                "/x/%2E./",
                "/a/b/.././../",
                "/x;y/../",
            ]);
            (Just(bytes), spelling, detour)
        })
        .collect();
    pieces.prop_map(move |pieces| {
        let mut path = String::new();
        for (bytes, spelling, detour) in pieces {
            path.push_str(detour);
            for (byte, how) in bytes.into_iter().zip(spelling) {
                match how {
                    0 => path.push(char::from(byte)),
                    1 => path.push_str(&format!("%{byte:02x}")),
                    _ => path.push_str(&format!("%{byte:02X}")),
                }
            }
        }
        (plain.clone(), path)
    })
}

/// What an upstream with parameters makes of a path: it drops them, decodes, then resolves dots.
fn as_a_servlet_reads_it(path: &str) -> Vec<u8> {
    let mut stack: Vec<Vec<u8>> = Vec::new();
    let mut ends_open = true;
    for segment in path.split('/') {
        let bare = segment.split(';').next().unwrap_or_default();
        let bytes: Vec<u8> = percent_encoding::percent_decode_str(bare).collect();
        ends_open = matches!(bytes.as_slice(), b"" | b"." | b"..");
        match bytes.as_slice() {
            b"" | b"." => {}
            b".." => drop(stack.pop()),
            _ => stack.push(bytes),
        }
    }
    let mut out = Vec::new();
    for segment in stack {
        out.push(b'/');
        out.extend(segment);
    }
    if ends_open {
        out.push(b'/');
    }
    out
}

/// Paths made of the pieces that matter, so that most have a normal form.
fn tricky() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(
        [
            "/", "/", "/", ".", "..", "a", "B", "%2e", "%2E", "%41", "%7e", "%20", "%3b", "%3A",
            "%c3", ";", ":", "*", "{", "~", "%25", "\u{e9}", "%2", "%2f", "\\", " ",
        ]
        .map(|piece| piece.as_bytes().to_vec())
        .to_vec(),
    );
    prop::collection::vec(piece, 0..12).prop_map(|pieces| {
        let mut path = b"/".to_vec();
        path.extend(pieces.concat());
        path
    })
}

fn check_normal_form(path: &[u8]) {
    let Ok(normal) = normalize(path) else { return };
    // Twice changes nothing, and is seen to change nothing.
    assert!(matches!(normalize(normal.as_bytes()), Ok(Cow::Borrowed(same)) if same == normal));

    assert!(normal.starts_with('/'));
    assert!(
        normal.bytes().all(|byte| byte.is_ascii_graphic()),
        "{normal}"
    );
    assert!(!normal.contains("//"), "{normal}");
    for segment in normal.split('/') {
        let bare = segment.split(';').next();
        assert!(!matches!(bare, Some("." | "..")), "{normal}");
    }
    for (at, _) in normal.match_indices('%') {
        let digits = &normal[at + 1..at + 3];
        assert_eq!(digits, digits.to_ascii_uppercase(), "{normal}");
        let byte = u8::from_str_radix(digits, 16).unwrap();
        let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        assert!(!unreserved && !b"\0/\\".contains(&byte), "{normal}");
    }

    let Ok(matching) = for_matching(&normal) else {
        return;
    };
    assert!(
        !matching.contains(';') && !matching.contains("//"),
        "{matching}"
    );
    assert!(
        !matching
            .split('/')
            .any(|segment| matches!(segment, "." | "..")),
        "{matching}"
    );
    assert!(
        matches!(for_matching(&matching), Ok(Cow::Borrowed(_))),
        "{matching}"
    );
    // What is forwarded is, to the upstream, what was matched.
    assert_eq!(
        as_a_servlet_reads_it(&normal),
        as_a_servlet_reads_it(&matching)
    );
    let decoded: Vec<u8> = percent_encoding::percent_decode_str(&matching).collect();
    assert_eq!(as_a_servlet_reads_it(&normal), decoded);
}

proptest! {
    #[test]
    fn any_bytes_keep_the_promises(path in prop::collection::vec(any::<u8>(), 0..24)) {
        check_normal_form(&path);
    }

    #[test]
    fn tricky_paths_keep_the_promises(path in tricky()) {
        check_normal_form(&path);
    }

    #[test]
    fn no_spelling_escapes(
        (plain, path) in prop::collection::vec("[a-zA-Z0-9_~-]{1,6}", 1..5).prop_flat_map(spelled),
    ) {
        prop_assert_eq!(normal(&path), Ok(plain));
    }

    #[test]
    fn no_spelling_of_punctuation_escapes(
        (plain, path) in prop::collection::vec("[a-z!$&'()*+,:=@]{1,6}", 1..5).prop_flat_map(spelled),
    ) {
        prop_assert_eq!(matched(&path), Ok(plain));
    }
}
