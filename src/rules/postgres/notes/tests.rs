use super::*;

fn found(rows: &[(&str, &str)]) -> HashMap<Pair, String> {
    let mut findings = Findings::default();
    for (tenant, what) in rows {
        findings.add(tenant, "r", || (*what).to_owned());
    }
    findings.by_pair()
}

#[test]
fn a_row_is_named_once_and_again_when_something_else_is_wrong_with_it() {
    let mut notes = Notes::default();
    let first = found(&[("a", "bad"), ("b", "worse"), ("b", "worst")]);
    let lines = notes.news(&first);
    assert_eq!(lines.len(), 2);
    assert!(lines[0].contains("\"a\"") && lines[0].contains("\"r\"") && lines[0].contains("bad"));
    assert!(lines[1].contains("worse; worst"), "{lines:?}");

    notes.named = first;
    assert!(notes.news(&found(&[("a", "bad")])).is_empty());
    assert_eq!(notes.news(&found(&[("a", "otherwise bad")])).len(), 1);
    assert_eq!(notes.news(&found(&[("c", "bad")])).len(), 1);
}

#[test]
fn a_row_that_was_mended_may_be_named_again() {
    let mut notes = Notes::default();
    let mut findings = Findings::default();
    findings.add("a", "r", || "bad".to_owned());
    notes.all(findings);
    notes.some(&[("a".to_owned(), "r".to_owned())], Findings::default());
    assert_eq!(notes.news(&found(&[("a", "bad")])).len(), 1);
}

#[test]
fn a_name_keeps_to_its_line() {
    let line = Notes::default().news(&found(&[("a\nb", "bad")])).remove(0);
    assert_eq!(line.lines().count(), 1, "{line}");
}

#[test]
fn a_broken_table_is_counted_rather_than_remembered() {
    let mut findings = Findings::default();
    for n in 0..MOST_ROWS + 5 {
        findings.add(&n.to_string(), "r", || "bad".to_owned());
    }
    let mut notes = Notes::default();
    notes.all(findings);
    assert_eq!(notes.named.len(), MOST_ROWS);
    assert_eq!(notes.lines, MOST_LINES);
}
