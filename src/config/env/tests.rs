use super::{Failure, replace};

fn env(name: &str) -> Option<String> {
    match name {
        "HOST" => Some("example.com".to_owned()),
        "PORT_1" => Some("9000".to_owned()),
        "EMPTY" => Some(String::new()),
        "SECRET" => Some("hunter2-hunter2".to_owned()),
        "NEWLINE" => Some("a\nversion: 2".to_owned()),
        "TAB" => Some("a\tb".to_owned()),
        "SEPARATOR" => Some("a\u{2028}b".to_owned()),
        "BRACE" => Some("{ a: b }".to_owned()),
        _ => None,
    }
}

#[test]
fn variables_are_replaced_outside_comments() {
    for (text, replaced) in [
        ("a: ${HOST}", "a: example.com"),
        ("a: ${HOST}:${PORT_1}", "a: example.com:9000"),
        ("a: ${MISSING:-x y}", "a: x y"),
        ("a: \"${MISSING:-}\"", "a: \"\""),
        ("a: ${EMPTY:-x}", "a: x"),
        ("a: '${EMPTY}'", "a: ''"),
        ("a: ${HOST:-x}", "a: example.com"),
        ("a: ${MISSING:-redis://h:1/0}", "a: redis://h:1/0"),
        ("a: $${HOST}", "a: ${HOST}"),
        ("a: $$${HOST}", "a: $${HOST}"),
        ("a: $HOST $", "a: $HOST $"),
        (
            "# ${MISSING}\na: ${HOST} # ${MISSING} $${X}",
            "# ${MISSING}\na: example.com # ${MISSING} $${X}",
        ),
        ("a: b#${HOST}", "a: b#example.com"),
        (
            "a: \"b # ${HOST}\" # ${MISSING}",
            "a: \"b # example.com\" # ${MISSING}",
        ),
        (
            "a: 'b # ${HOST}' # ${MISSING}",
            "a: 'b # example.com' # ${MISSING}",
        ),
        (
            "a: 'it''s # ${HOST}' # ${MISSING}",
            "a: 'it''s # example.com' # ${MISSING}",
        ),
        (
            "a: \"\\\" # ${HOST}\" # ${MISSING}",
            "a: \"\\\" # example.com\" # ${MISSING}",
        ),
        ("a: \"\\\\\" # ${MISSING}", "a: \"\\\\\" # ${MISSING}"),
        ("a: it's # ${MISSING}", "a: it's # ${MISSING}"),
        ("a: don 't # ${MISSING}", "a: don 't # ${MISSING}"),
        ("- \"b # ${HOST}\"", "- \"b # example.com\""),
        (
            "{a: \"# ${HOST}\", 'b # ': [x, \"# ${HOST}\"]} # ${MISSING}",
            "{a: \"# example.com\", 'b # ': [x, \"# example.com\"]} # ${MISSING}",
        ),
        ("{\"a\":\"b # ${HOST}\"}", "{\"a\":\"b # example.com\"}"),
        ("a: b [c, \" # ${MISSING}", "a: b [c, \" # ${MISSING}"),
        (
            "a: \"two\n  lines # ${HOST}\" # ${MISSING}",
            "a: \"two\n  lines # example.com\" # ${MISSING}",
        ),
        (
            "a: b # it's\r\nc: ${HOST} # ${MISSING}\r\n",
            "a: b # it's\r\nc: example.com # ${MISSING}\r\n",
        ),
        ("a:\t#${MISSING}", "a:\t#${MISSING}"),
        ("ü: ${HOST}", "ü: example.com"),
    ] {
        let done = replace(text, &env).expect(text);
        assert_eq!(done.text, replaced);
    }
}

#[test]
fn a_variable_that_cannot_be_replaced_is_named_with_its_place() {
    for (text, line, column, message) in [
        (
            "a: 1\nü: \"${MISSING}\"",
            2,
            5,
            "the environment variable MISSING is not set; set it, or give a default as in `${MISSING:-default}`",
        ),
        (
            "a: ${HOST} ${MISSING}",
            1,
            12,
            "the environment variable MISSING is not set; set it, or give a default as in `${MISSING:-default}`",
        ),
        (
            "a: ${NEWLINE}",
            1,
            4,
            "the environment variable NEWLINE holds a line break or another control character",
        ),
        (
            "a: ${TAB}",
            1,
            4,
            "the environment variable TAB holds a line break or another control character",
        ),
        (
            "a: ${SEPARATOR:-x}",
            1,
            4,
            "the environment variable SEPARATOR holds a line break or another control character",
        ),
        (
            "a: ${HOST",
            1,
            4,
            "`${` without its `}`; write `$${` for a literal `${`",
        ),
        (
            "a: ${HOST\n}",
            1,
            4,
            "`${` without its `}`; write `$${` for a literal `${`",
        ),
        (
            "a: ${}",
            1,
            4,
            "`${}` names no variable, expected letters, digits and `_`; write `$${` for a literal `${`",
        ),
        (
            "a: ${A-B}",
            1,
            4,
            "`${A-B}` names no variable, expected letters, digits and `_`; write `$${` for a literal `${`",
        ),
        (
            "a: ${1A}",
            1,
            4,
            "`${1A}` names no variable, expected letters, digits and `_`; write `$${` for a literal `${`",
        ),
        (
            "a: ${A:-${B}}",
            1,
            4,
            "the default of `${A}` cannot hold another variable",
        ),
    ] {
        assert_eq!(
            replace(text, &env).expect_err(text),
            Failure {
                line,
                column,
                message: message.to_owned()
            }
        );
    }
}

#[test]
fn places_are_those_of_the_file() {
    let text = replace("a: [${HOST}, ${PORT_1}, $${x, ${EMPTY}, b]\nc: d", &env).expect("text");
    assert_eq!(text.text, "a: [example.com, 9000, ${x, , b]\nc: d");
    for (new, file) in [
        ((1, 1), (1, 1)),
        ((1, 5), (1, 5)),   // the beginning of the first value
        ((1, 8), (1, 5)),   // inside it
        ((1, 16), (1, 12)), // the comma behind it
        ((1, 18), (1, 14)), // the second value
        ((1, 22), (1, 23)), // the comma behind it
        ((1, 24), (1, 25)), // the literal
        ((1, 29), (1, 31)), // the empty value, whose place the comma takes
        ((1, 31), (1, 41)), // the b
        ((2, 4), (2, 4)),
    ] {
        assert_eq!(text.place(new.0, new.1), file, "{new:?}");
    }
}

#[test]
fn messages_and_debug_output_do_not_show_values_of_the_environment() {
    let text = replace("a: ${SECRET}\nb: '${BRACE}'\nc: ${PORT_1:-1}", &env).expect("text");
    assert_eq!(
        text.hide(
            1,
            4,
            "invalid type: string \"hunter2-hunter2\", expected a mapping"
        ),
        "invalid type: string \"${SECRET}\", expected a mapping"
    );
    assert_eq!(
        text.hide(2, 4, "unknown field `a`, expected one of `x`"),
        "what the environment variable BRACE holds does not fit here, expected one of `x`"
    );
    assert_eq!(text.hide(2, 1, "unknown field `b`"), "unknown field `b`");
    assert!(!format!("{text:?}").contains("hunter2"));
}
