use super::*;

const NAME: HeaderName = HeaderName::from_static("x-api-key");

fn key_of(values: &[&[u8]]) -> Result<String, Unauthorized> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(NAME, HeaderValue::from_bytes(value).unwrap());
    }
    key(&headers, &NAME).map(str::to_owned)
}

#[test]
fn a_key_is_one_header_of_visible_ascii() {
    assert_eq!(key_of(&[b"shop-a"]), Ok("shop-a".to_owned()));
    assert_eq!(key_of(&[b"{a}:b%~"]), Ok("{a}:b%~".to_owned()));
    assert_eq!(key_of(&[&[b'k'; 64]]), Ok("k".repeat(64)));
}

#[test]
fn what_cannot_be_a_key_is_refused() {
    assert_eq!(key_of(&[]), Err(Unauthorized::Missing));
    assert_eq!(key_of(&[b"a", b"a"]), Err(Unauthorized::Repeated));
    for malformed in [&b""[..], b"a b", b" ", b"a\tb", "é".as_bytes(), &[b'k'; 65]] {
        assert_eq!(key_of(&[malformed]), Err(Unauthorized::Malformed));
    }
}

#[test]
fn a_policys_name_may_be_any_printable_text_of_64_bytes() {
    assert!(check("käse").is_ok());
    assert!(header_value("käse").is_some());
    for refused in ["", "a\nb", "a\u{85}", &"x".repeat(65)] {
        assert_eq!(check(refused), Err(Unauthorized::Malformed), "{refused:?}");
    }
}

#[test]
fn the_challenge_names_the_header() {
    assert_eq!(
        challenge(&NAME),
        r#"ApiKey realm="aforo", header="X-Api-Key""#
    );
    let other = HeaderName::from_static("authorization");
    assert_eq!(
        challenge(&other),
        r#"ApiKey realm="aforo", header="Authorization""#
    );
}
