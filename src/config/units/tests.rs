use std::time::Duration;

use super::{format_duration, parse_duration, parse_size};

#[test]
fn durations_are_a_whole_number_and_a_unit() {
    for (text, milliseconds) in [
        ("0s", 0),
        ("5ms", 5),
        ("30s", 30_000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("8784h", 8_784 * 3_600_000),
    ] {
        assert_eq!(
            parse_duration(text),
            Ok(Duration::from_millis(milliseconds)),
            "{text}"
        );
    }
}

#[test]
fn a_bad_duration_is_told_what_one_looks_like() {
    for (text, message) in [
        (
            "5",
            "`5` has no unit, expected a duration such as 5ms, 30s, 2m or 1h",
        ),
        (
            "0",
            "`0` has no unit, expected a duration such as 5ms, 30s, 2m or 1h",
        ),
        (
            "5 parsecs",
            "`5 parsecs` has an unknown unit, expected a duration such as 5ms, 30s, 2m or 1h",
        ),
        (
            "5 s",
            "`5 s` has an unknown unit, expected a duration such as 5ms, 30s, 2m or 1h",
        ),
        (
            "5S",
            "`5S` has an unknown unit, expected a duration such as 5ms, 30s, 2m or 1h",
        ),
        (
            "5us",
            "`5us` has an unknown unit, expected a duration such as 5ms, 30s, 2m or 1h",
        ),
        (
            "1.5s",
            "`1.5s` is not a whole number, expected a duration such as 5ms, 30s, 2m or 1h",
        ),
        ("-5s", "`-5s` is not a duration such as 5ms, 30s, 2m or 1h"),
        ("", "`` is not a duration such as 5ms, 30s, 2m or 1h"),
        (
            "soon",
            "`soon` is not a duration such as 5ms, 30s, 2m or 1h",
        ),
        ("8785h", "`8785h` is too long, at most 8784h"),
        (
            "18446744073709551615h",
            "`18446744073709551615h` is too long, at most 8784h",
        ),
        (
            "18446744073709551616s",
            "`18446744073709551616s` is too large",
        ),
    ] {
        assert_eq!(parse_duration(text), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn sizes_are_a_whole_number_and_a_binary_unit() {
    for (text, bytes) in [
        ("0B", 0),
        ("512B", 512),
        ("64KiB", 65_536),
        ("10MiB", 10_485_760),
        ("1GiB", 1_073_741_824),
    ] {
        assert_eq!(parse_size(text), Ok(bytes), "{text}");
    }
    for (text, message) in [
        (
            "64",
            "`64` has no unit, expected a size such as 512B, 64KiB, 10MiB or 1GiB",
        ),
        (
            "64KB",
            "`64KB` has an unknown unit, expected a size such as 512B, 64KiB, 10MiB or 1GiB",
        ),
        (
            "18446744073709551615KiB",
            "`18446744073709551615KiB` is too large",
        ),
        (
            "big",
            "`big` is not a size such as 512B, 64KiB, 10MiB or 1GiB",
        ),
    ] {
        assert_eq!(parse_size(text), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn a_duration_is_printed_as_it_would_be_written() {
    for text in ["0s", "5ms", "1500ms", "30s", "90s", "2m", "1h", "36h"] {
        let duration = parse_duration(text).expect("a duration");
        assert_eq!(format_duration(duration), text);
    }
}
