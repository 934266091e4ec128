//! curl, the client that everybody has.

use std::path::Path;
use std::process::Command;

/// What curl was answered.
#[derive(Debug)]
pub struct Curled {
    /// `1.1` or `2`.
    pub version: String,
    pub status: u16,
    /// In lower case, as they came.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Curled {
    /// The value of a header that is there once.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter().filter(|(key, _)| key == name);
        let found = all.next().map(|(_, value)| value.as_str());
        assert!(all.next().is_none(), "{name} is there twice: {self:?}");
        found
    }
}

/// Runs curl with these arguments; the URL is one of them. What it says where it fails.
pub fn curl(arguments: &[&str]) -> Result<Curled, String> {
    let output = Command::new("curl")
        .args(["-sS", "-D", "-", "--max-time", "30", "-o", "-"])
        .args(["-w", "\n%{http_version} %{http_code}"])
        .args(arguments)
        .output()
        .map_err(|error| format!("curl: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let (text, last) = text.rsplit_once('\n').ok_or("no output")?;
    let (version, status) = last.split_once(' ').ok_or("no version")?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no head")?;
    Ok(Curled {
        version: version.to_owned(),
        status: status.parse().map_err(|_| format!("status {status}"))?,
        headers: head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect(),
        body: body.to_owned(),
    })
}

/// Runs curl over TLS at an address that is to be this host, whom this authority vouches for.
pub fn curl_tls(
    address: &str,
    host: &str,
    authority: &Path,
    path: &str,
    arguments: &[&str],
) -> Result<Curled, String> {
    let (ip, port) = address.rsplit_once(':').ok_or("no port")?;
    let resolve = format!("{host}:{port}:{ip}");
    let url = format!("https://{host}:{port}{path}");
    let authority = authority.to_str().ok_or("no path")?;
    let mut all = vec!["--cacert", authority, "--resolve", &resolve];
    all.extend_from_slice(arguments);
    all.push(&url);
    curl(&all)
}
