//! What stands at a URL of PostgreSQL: for `aforo check --connect`, before anything depends on it.

use super::{PostgresError, SILENCE, block_on, connect, migrate, within};

const DOING: &str = "asking what is there";

/// Connects, and says what is there.
///
/// # Errors
///
/// Where nothing answers, or refuses.
pub fn describe(url: &str, address: &str) -> Result<String, PostgresError> {
    block_on(async {
        let mut connection = connect(url).await?;
        let version = sqlx::query_scalar("select current_setting('server_version')")
            .fetch_one(&mut connection);
        let version: String = within(SILENCE, DOING, version).await?;
        let there = sqlx::query_scalar("select to_regclass('rate_limit_rule') is not null")
            .fetch_one(&mut connection);
        let there: bool = within(SILENCE, DOING, there).await?;
        let table = if there {
            let rules = sqlx::query_scalar("select count(*) from rate_limit_rule")
                .fetch_one(&mut connection);
            match within::<i64>(SILENCE, DOING, rules).await {
                Ok(rules) => format!("table rate_limit_rule with {rules} rules"),
                Err(error) => format!("table rate_limit_rule, which cannot be read ({error})"),
            }
        } else {
            "no table rate_limit_rule".to_owned()
        };
        // The gateway's own user need not be allowed to see them.
        let migrations = match migrate::missing(&mut connection).await {
            Ok(missing) if missing.is_empty() => "no migrations missing".to_owned(),
            Ok(missing) => format!("{} migrations missing, run `aforo migrate`", missing.len()),
            Err(_) => "migrations unknown to this user".to_owned(),
        };
        Ok(format!(
            "PostgreSQL {version} at {address}, {table}, {migrations}"
        ))
    })
}
