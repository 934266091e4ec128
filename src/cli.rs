//! The command line: what is asked for, and how it ended.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::app::Start;
use crate::config::{Config, Format, Source};
use crate::gateway::policy::Policy;
use crate::metrics::METRICS;
use crate::region::show;
use crate::rules::postgres::{migrate, probe as database, region::overview as regions};
use crate::store::redis::probe;
use crate::{demo, health, reload};

/// The configuration is wrong.
const WRONG: u8 = 1;
/// The command line is wrong.
const USAGE: u8 = 2;
/// A failure to start.
const FAILED: u8 = 3;

/// An edge proxy that holds every tenant of an API to its rate across a whole cluster of gateways.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway; what aforo alone does too
    Run(Run),
    /// Validate a configuration and show what it amounts to
    Check(Check),
    /// Make the tables of the rules in PostgreSQL, or bring them up to date
    Migrate(File),
    /// Show which region holds which share of the limits
    Regions(Regions),
    /// Run with a built-in upstream and one rule, nothing else installed
    Demo(Demo),
    /// Ask a running gateway whether it is ready; exit 0 or 1
    Health(File),
}

#[derive(Args)]
struct File {
    /// The configuration file
    #[arg(short, long, value_name = "FILE", default_value = "conf/aforo.yaml")]
    config: PathBuf,
}

#[derive(Args)]
struct LogFormat {
    /// How log lines are written, whatever the configuration says
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormatName>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormatName {
    Text,
    Json,
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    file: File,
    /// Take the listeners over from the running process, which then ends; SIGUSR2 does that
    #[arg(long)]
    upgrade: bool,
    #[command(flatten)]
    log: LogFormat,
}

#[derive(Args)]
struct Check {
    #[command(flatten)]
    file: File,
    /// Also ask Redis and PostgreSQL, and say what they are
    #[arg(long)]
    connect: bool,
}

#[derive(Args)]
struct Regions {
    #[command(flatten)]
    file: File,
    /// Forget a region whose gateways were all ended: what it held is free for the others
    #[arg(long, value_name = "REGION")]
    forget: Option<String>,
}

#[derive(Args)]
struct Demo {
    /// Where the gateway listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where metrics and health are
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    admin: SocketAddr,
    #[command(flatten)]
    log: LogFormat,
}

/// Does what the command line of this process asks for, with `policy` where the gateway is run.
pub fn main<P: Policy>(policy: P) -> ExitCode {
    run(std::env::args_os(), policy)
}

fn run<P: Policy>(arguments: impl IntoIterator<Item = OsString>, policy: P) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match cli.command.unwrap_or(Command::Run(cli.run)) {
        Command::Run(run) => ended(
            Start::new(run.file.source())
                .log_format(run.log.chosen())
                .upgrade(run.upgrade)
                .run(policy)
                .map_err(|error| (error.exit_code(), error.to_string())),
        ),
        Command::Check(check) => ended(check.check()),
        Command::Migrate(file) => ended(migrated(&file.source())),
        Command::Regions(regions) => ended(regions.show()),
        Command::Demo(demo) => ended(
            demo::run(demo.listen, demo.admin, demo.log.chosen())
                .map_err(|error| (FAILED, error.to_string())),
        ),
        Command::Health(file) => ended(health(&file.source())),
    }
}

/// Help and version are what was asked for; all else is a mistake, told in one line.
fn usage(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        // Nobody is left to tell where standard output is gone.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let first = text.lines().next().unwrap_or("error: wrong usage");
    complain(&format!("{first} (see aforo --help)"));
    ExitCode::from(USAGE)
}

fn ended(result: Result<(), (u8, String)>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            complain(&message);
            ExitCode::from(code)
        }
    }
}

/// Writes to standard output.
fn say(text: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{text}")
        .map_err(|error| format!("cannot write the answer: {error}"))
}

fn complain(message: &str) {
    // Nobody is left to tell where standard error is gone.
    let _ = writeln!(std::io::stderr(), "{message}");
}

impl File {
    fn source(&self) -> Source {
        Source::File(self.config.clone())
    }
}

impl LogFormat {
    fn chosen(&self) -> Option<Format> {
        self.log_format.map(|format| match format {
            LogFormatName::Text => Format::Text,
            LogFormatName::Json => Format::Json,
        })
    }
}

impl Check {
    fn check(&self) -> Result<(), (u8, String)> {
        let source = self.file.source();
        let loaded = reload::load(&source, &METRICS).map_err(|e| (WRONG, e.to_string()))?;
        if !loaded.warnings.is_empty() {
            let lines: Vec<String> = loaded
                .warnings
                .iter()
                .map(|warning| format!("{source}: {warning}"))
                .collect();
            return Err((WRONG, lines.join("\n")));
        }
        let config = loaded.config;
        let mut summary = format!("{source}: ok\n{}", config.summary());
        if self.connect {
            summary.push_str(&connected(&config).map_err(|e| (FAILED, e))?);
        }
        say(summary.trim_end()).map_err(|error| (FAILED, error))
    }
}

/// What `check --connect` finds out.
fn connected(config: &Config) -> Result<String, String> {
    let mut found = String::new();
    if let Some(store) = &config.store {
        let within = Duration::from_secs(2);
        let redis = &store.redis;
        let redis = probe::describe(redis.url.expose(), &redis.tls, within)
            .map_err(|error| format!("store.redis.url: {error}"))?;
        found.push_str(&format!("connect: {redis}\n"));
    }
    if let Some(rules) = &config.rules {
        let postgres = &rules.postgres;
        let database = database::describe(postgres.url.expose(), &postgres.address)
            .map_err(|error| format!("rules.postgres.url: {error}"))?;
        found.push_str(&format!("connect: {database}\n"));
    }
    if found.is_empty() {
        found.push_str("connect: nothing to connect to\n");
    }
    Ok(found)
}

impl Regions {
    fn show(&self) -> Result<(), (u8, String)> {
        let source = self.file.source();
        let config = source.load().map_err(|error| (WRONG, error.to_string()))?;
        let Some(rules) = &config.rules else {
            let missing = format!(
                "{source}: rules.postgres: is missing, regions tell each other nothing without it"
            );
            return Err((WRONG, missing));
        };
        let postgres = &rules.postgres;
        let url = postgres.url.expose();
        let text = match &self.forget {
            None => regions::read(url).map(|found| show::overview(&found)),
            Some(region) => regions::forget(url, region).map(|gateways| {
                format!("region {region:?} is forgotten, with {gateways} gateways")
            }),
        };
        let text = text.map_err(|error| {
            (
                FAILED,
                format!("PostgreSQL at {}: {error}", postgres.address),
            )
        })?;
        say(text.trim_end()).map_err(|error| (FAILED, error))
    }
}

fn migrated(source: &Source) -> Result<(), (u8, String)> {
    let config = source.load().map_err(|error| (WRONG, error.to_string()))?;
    let Some(rules) = &config.rules else {
        let missing = format!("{source}: rules.postgres: is missing, there is nothing to migrate");
        return Err((WRONG, missing));
    };
    let postgres = &rules.postgres;
    let done = migrate::run(postgres.url.expose()).map_err(|error| {
        let message = format!("PostgreSQL at {}: {error}", postgres.address);
        (FAILED, message.lines().collect::<Vec<_>>().join(" "))
    })?;
    println!(
        "PostgreSQL at {}: {} migrations applied, {} were there",
        postgres.address,
        done.applied,
        done.all - done.applied
    );
    Ok(())
}

fn health(source: &Source) -> Result<(), (u8, String)> {
    health::ask(source.admin_address()).map_err(|error| (WRONG, error.to_string()))
}
