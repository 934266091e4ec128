use super::*;
use crate::rules::layer::ANY;
use tempfile::TempDir;

fn layer() -> Layer {
    let rule = |capacity, refill| Rule::new(capacity, refill).unwrap();
    [
        ("shop-a", "create-order", rule(10, 5.0)),
        ("shop-a", ANY, rule(1, 1.0 / 86_400.0)),
        (
            ANY,
            "\"quoted\"",
            rule(i32::MAX as u32, 1e9).with_shadow(true),
        ),
    ]
    .into_iter()
    .collect()
}

fn rules(layer: &Layer) -> Vec<(String, String, Rule)> {
    let mut rules: Vec<_> = layer
        .iter()
        .map(|(tenant, route, rule)| (tenant.to_owned(), route.to_owned(), *rule))
        .collect();
    rules.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    rules
}

#[test]
fn rules_come_back_as_they_were() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rules.json");
    assert!(read(&path).unwrap().is_none(), "not there yet");

    write(&path, &Layer::default()).unwrap();
    write(&path, &layer()).unwrap();
    let saved = read(&path).unwrap().unwrap();
    assert_eq!(rules(&saved.layer), rules(&layer()), "to the last bit");
    assert!(saved.age < Duration::from_secs(60));
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "nothing else is left there: {files:?}");
}

#[test]
fn a_broken_file_is_no_rules() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rules.json");
    write(&path, &layer()).unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    let another_version = whole.replace("\"version\":2", "\"version\":3");
    let another_rule = whole.replace("10,5.0", "10,6.0");
    for (broken, what) in [
        ("", "EOF"),
        (&whole[..whole.len() / 2], "EOF"),
        ("[]", "invalid"),
        (&another_version, "version 3"),
        (&another_rule, "checksum"),
    ] {
        assert_ne!(broken, whole);
        fs::write(&path, broken).unwrap();
        let error = read(&path).err().unwrap().to_string();
        assert!(error.contains(what), "{error}");
        assert!(error.contains("rules.json"), "{error}");
    }
}

#[test]
fn what_cannot_be_written_leaves_the_file_as_it_was() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("nowhere").join("rules.json");
    assert!(write(&path, &layer()).is_err());
    // A folder of that name is never replaced by a file.
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).unwrap();
    assert!(write(&taken, &layer()).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
