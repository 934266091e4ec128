//! What the database knows of all regions, for people; and that a region has ended, from them.

use std::time::Duration;

use sqlx::Row;

use super::{Exchange, PATIENCE, READING, WRITING, asked_of, beat_of, failed, grants};
use crate::rules::ledger::{Asked, Beat, Grants};
use crate::rules::postgres::{PostgresError, block_on, within};

/// One gateway for people.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What it said last.
    pub beat: Beat,
    /// How long ago that was, by the database's clock.
    pub ago: Duration,
}

/// Everything for people.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The last version; 0: there is none.
    pub version: i64,
    /// What was granted in it.
    pub grants: Grants,
    /// Every gateway.
    pub gateways: Vec<Seen>,
    /// Demand of the last periods.
    pub asked: Vec<Asked>,
}

/// Reads everything, for a command.
///
/// # Errors
///
/// Where the database does not answer, or has no such tables.
pub fn read(url: &str) -> Result<Overview, PostgresError> {
    block_on(async {
        let mut exchange = Exchange::connect(url).await?;
        let connection = &mut exchange.0;
        let version =
            sqlx::query_scalar("select version from region_writer").fetch_one(&mut *connection);
        let version: i64 = within(PATIENCE, READING, version).await?;
        let mut versions = grants(connection, &[version]).await?;
        let rows = sqlx::query(
            "select region, gateway, base, lease_seconds, instances, applied, pending, beat, \
             greatest(0, extract(epoch from now() - at))::float8 from region_gateway \
             order by region, gateway",
        )
        .fetch_all(&mut *connection);
        let rows = within(PATIENCE, READING, rows).await?;
        let gateways = rows.iter().map(|row| {
            let ago = Duration::try_from_secs_f64(row.try_get(8)?).unwrap_or(Duration::MAX);
            Ok(Seen {
                beat: beat_of(row)?,
                ago,
            })
        });
        let gateways: sqlx::Result<Vec<Seen>> = gateways.collect();
        let rows = sqlx::query(
            "select region, tenant_id, route_id, sum(demand), max(refill_per_second) \
             from region_demand group by region, tenant_id, route_id",
        )
        .fetch_all(&mut *connection);
        let rows = within(PATIENCE, READING, rows).await?;
        Ok(Overview {
            version,
            grants: versions.remove(&version).unwrap_or_default(),
            gateways: gateways.map_err(failed(READING))?,
            asked: rows
                .iter()
                .map(asked_of)
                .collect::<sqlx::Result<_>>()
                .map_err(failed(READING))?,
        })
    })
}

/// Forgets a region whose gateways were all ended: what it held is free for the others.
///
/// # Errors
///
/// Where the database does not answer.
pub fn forget(url: &str, region: &str) -> Result<u64, PostgresError> {
    block_on(async {
        let mut exchange = Exchange::connect(url).await?;
        let forgotten = sqlx::query("delete from region_gateway where region = $1")
            .bind(region)
            .execute(&mut exchange.0);
        let forgotten = within(PATIENCE, WRITING, forgotten).await?;
        let demand = sqlx::query("delete from region_demand where region = $1")
            .bind(region)
            .execute(&mut exchange.0);
        within(PATIENCE, WRITING, demand).await?;
        Ok(forgotten.rows_affected())
    })
}
