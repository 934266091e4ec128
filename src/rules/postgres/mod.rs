//! Rules from PostgreSQL. All SQL of Aforo is below here, and in `migrations/`.
//!
//! [`service`] follows the database and hands on plain rules; nothing else of it reaches a
//! request. Below it, [`listen`] hears of changes, [`load`] reads rows, [`row`] tells the good
//! from the bad, [`notes`] names those, [`version`] knows what was missed, and [`saved`] keeps the
//! last good rules for a start without the database. [`migrate`] makes the tables and [`probe`]
//! looks at them, each for a command of its own. [`region`] has nothing to do with rules: it keeps
//! what regions that share every limit tell each other.

pub mod listen;
pub mod load;
pub mod migrate;
pub mod notes;
pub mod probe;
pub mod region;
pub mod row;
pub mod saved;
pub mod service;
pub mod session;
pub mod version;

use std::future::Future;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};
use thiserror::Error;

const CONNECTING: &str = "connecting to PostgreSQL";
/// How long the database may take to let us in.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How long it may stay silent while an answer is awaited. Then the connection is as good as lost.
const SILENCE: Duration = Duration::from_secs(10);

/// Why rules could not be had from the database. No text holds a password.
#[derive(Debug, Error)]
pub enum PostgresError {
    /// The URL cannot be read.
    #[error("reading the database's URL: it is not one")]
    Url,
    /// The database could not do what it was asked for, or could not be reached.
    #[error("{doing}: {error}{}", hint(error))]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// What the database, or the connection to it, says.
        error: sqlx::Error,
    },
    /// The database did not answer.
    #[error("{doing}: no answer within {} s", within.as_secs())]
    Silent {
        /// What was being done.
        doing: &'static str,
        /// How long was waited.
        within: Duration,
    },
    /// The connection on which changes are announced is gone.
    #[error("listening for changes: the connection was lost")]
    Lost,
}

impl PostgresError {
    /// The code of the error where the database is there and says no, rather than being away,
    /// going down or coming up.
    fn refusal(&self) -> Option<String> {
        const OPERATOR_INTERVENTION: &str = "57P";
        match self {
            Self::Failed { error, .. } => error
                .as_database_error()
                .and_then(|error| error.code())
                .filter(|code| !code.starts_with(OPERATOR_INTERVENTION))
                .map(Into::into),
            Self::Url | Self::Silent { .. } | Self::Lost => None,
        }
    }
}

/// Settings of a connection. Statements are not logged: they would be at each poll.
///
/// # Errors
///
/// Where the URL is none.
pub fn options(url: &str) -> Result<PgConnectOptions, PostgresError> {
    // What the parser says may quote the URL.
    let options = url.parse::<PgConnectOptions>();
    let options = options.map_err(|_| PostgresError::Url)?;
    let options = match options.get_application_name() {
        Some(_) => options,
        None => options.application_name("aforo"),
    };
    Ok(options.disable_statement_logging())
}

/// A connection for a command.
async fn connect(url: &str) -> Result<PgConnection, PostgresError> {
    let options = options(url)?;
    let connecting = PgConnection::connect_with(&options);
    within(CONNECT_PATIENCE, CONNECTING, connecting).await
}

/// Runs something for a command, which has no runtime of its own.
fn block_on<T>(doing: impl Future<Output = Result<T, PostgresError>>) -> Result<T, PostgresError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| PostgresError::Failed {
            doing: CONNECTING,
            error: sqlx::Error::Io(error),
        })?
        .block_on(doing)
}

/// The outcome of something that the database is asked to do within a time.
async fn within<T>(
    limit: Duration,
    doing: &'static str,
    asked: impl Future<Output = sqlx::Result<T>>,
) -> Result<T, PostgresError> {
    match tokio::time::timeout(limit, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(PostgresError::Failed { doing, error }),
        Err(_) => Err(PostgresError::Silent {
            doing,
            within: limit,
        }),
    }
}

/// What helps where a table or a column is not there.
fn hint(error: &sqlx::Error) -> &'static str {
    const UNDEFINED_TABLE: &str = "42P01";
    const UNDEFINED_COLUMN: &str = "42703";
    let code = error.as_database_error().and_then(|error| error.code());
    match code.as_deref() {
        Some(UNDEFINED_TABLE | UNDEFINED_COLUMN) => "; `aforo migrate` makes what is missing",
        _ => "",
    }
}
