//! Making the tables, and bringing those that are there up to date.
//!
//! The migrations are in the program. What was applied is never applied again, and two that run
//! at once take turns: `sqlx` holds a lock of the database meanwhile.

use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, SqlSafeStr};

use super::{PostgresError, SILENCE, connect, within};

#[cfg(test)]
mod tests;

/// Number, name and text of each file in `migrations/`.
const MIGRATIONS: [(i64, &str, &str); 5] = [
    (
        1,
        "rate limit rule",
        include_str!("../../../migrations/0001_rate_limit_rule.sql"),
    ),
    (
        2,
        "rule columns",
        include_str!("../../../migrations/0002_rule_columns.sql"),
    ),
    (
        3,
        "api key",
        include_str!("../../../migrations/0003_api_key.sql"),
    ),
    (
        4,
        "rule version",
        include_str!("../../../migrations/0004_rule_version.sql"),
    ),
    (
        5,
        "region",
        include_str!("../../../migrations/0005_region.sql"),
    ),
];

/// How long the tables may be locked by somebody else, or the migration of a large one may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a run of the migrations did.
pub struct Migrated {
    /// Those that were missing.
    pub applied: usize,
    /// All that there are.
    pub all: usize,
}

/// Applies what is missing.
///
/// # Errors
///
/// Where the database cannot be reached, or what is there is in the way.
pub fn run(url: &str) -> Result<Migrated, PostgresError> {
    super::block_on(async {
        let mut connection = connect(url).await?;
        let missing = missing(&mut connection).await?.len();
        let migrator = migrator();
        let running = async {
            let run = migrator.run(&mut connection).await;
            run.map_err(|error| sqlx::Error::Migrate(Box::new(error)))
        };
        within(PATIENCE, "applying the migrations", running).await?;
        within(SILENCE, "closing", connection.close()).await?;
        Ok(Migrated {
            applied: missing,
            all: MIGRATIONS.len(),
        })
    })
}

/// The numbers of the migrations that were not applied.
///
/// # Errors
///
/// Where the database does not say.
pub async fn missing(connection: &mut PgConnection) -> Result<Vec<i64>, PostgresError> {
    const DOING: &str = "asking for the migrations";
    let known = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
        .fetch_one(&mut *connection);
    let known: bool = within(SILENCE, DOING, known).await?;
    let mut applied: Vec<i64> = Vec::new();
    if known {
        let asked = sqlx::query_scalar("select version from _sqlx_migrations where success")
            .fetch_all(&mut *connection);
        applied = within(SILENCE, DOING, asked).await?;
    }
    Ok(MIGRATIONS
        .iter()
        .map(|(version, ..)| *version)
        .filter(|version| !applied.contains(version))
        .collect())
}

fn migrator() -> Migrator {
    let migrations = MIGRATIONS.map(|(version, name, text)| {
        Migration::new(
            version,
            name.into(),
            MigrationType::Simple,
            text.into_sql_str(),
            false,
        )
    });
    let mut migrator = Migrator::with_migrations(migrations.into());
    // A newer Aforo has been here. Migrations only add, so that nothing is in our way.
    migrator.set_ignore_missing(true);
    migrator
}
