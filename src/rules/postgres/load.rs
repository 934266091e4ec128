//! Reading rules: all of them, or those that were named.
//!
//! Rows are taken one by one as they arrive; the answer is never held as a whole beside the rules
//! that it becomes. What is wrong with a row is for whoever asked to say.

use std::pin::Pin;

use futures_util::{Stream, StreamExt};
use sqlx::Connection;
use sqlx::postgres::{PgConnection, PgRow};

use super::row::Row;
use super::{PostgresError, SILENCE, within};

const DOING: &str = "loading the rules";
const VERSION: &str = "select max(n) from rule_version";

// What `Row::read` expects, in its order.
const ALL: &str = "select tenant_id, route_id, capacity, refill_per_second, period_seconds, \
                   shards, shadow, on_store_failure, concurrency from rate_limit_rule";
const NAMED: &str = "select tenant_id, route_id, capacity, refill_per_second, period_seconds, \
                     shards, shadow, on_store_failure, concurrency from rate_limit_rule \
                     join unnest($1::text[], $2::text[]) as named (tenant, route) \
                     on tenant_id = tenant and route_id = route";

/// Hands every rule to `each`, and gives the number of the last change that is among them.
///
/// # Errors
///
/// Where the database does not answer, or not with rules.
pub async fn all(
    connection: &mut PgConnection,
    each: impl FnMut(&Row<'_>),
) -> Result<Option<i64>, PostgresError> {
    // One view of the database for both: a change is in the number and in the rules, or in neither.
    let begin = connection.begin_with("begin isolation level repeatable read read only");
    let mut transaction = within(SILENCE, DOING, begin).await?;
    let version = version(&mut transaction).await?;
    read(sqlx::query(ALL).fetch(&mut *transaction), each).await?;
    within(SILENCE, DOING, transaction.commit()).await?;
    Ok(version)
}

/// Hands those of the named rules to `each` that there are.
///
/// # Errors
///
/// As for [`all`].
pub async fn named(
    connection: &mut PgConnection,
    pairs: &[(String, String)],
    each: impl FnMut(&Row<'_>),
) -> Result<(), PostgresError> {
    let (tenants, routes): (Vec<&str>, Vec<&str>) = pairs
        .iter()
        .map(|(tenant, route)| (tenant.as_str(), route.as_str()))
        .unzip();
    let query = sqlx::query(NAMED).bind(tenants).bind(routes);
    read(query.fetch(connection), each).await
}

/// The number of the last change.
///
/// # Errors
///
/// As for [`all`].
pub async fn version(connection: &mut PgConnection) -> Result<Option<i64>, PostgresError> {
    let query = sqlx::query_scalar(VERSION).fetch_one(connection);
    within(SILENCE, "asking for changes", query).await
}

async fn read(
    mut rows: Pin<Box<dyn Stream<Item = sqlx::Result<PgRow>> + Send + '_>>,
    mut each: impl FnMut(&Row<'_>),
) -> Result<(), PostgresError> {
    let failed = |error| PostgresError::Failed {
        doing: DOING,
        error,
    };
    loop {
        let next = async { rows.next().await.transpose() };
        let Some(row) = within(SILENCE, DOING, next).await? else {
            return Ok(());
        };
        each(&Row::read(&row).map_err(failed)?);
    }
}
