use super::*;
use std::fs;
use std::path::Path;

#[test]
fn every_file_is_in_the_program_under_its_number_and_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut files: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    let known = MIGRATIONS.map(|(version, name, text)| {
        let file = format!("{version:04}_{}.sql", name.replace(' ', "_"));
        (file, text.to_owned())
    });
    assert_eq!(files, known);
}
