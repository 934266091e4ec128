//! What regions that share every limit tell each other: demand, shares, signs of life.
//!
//! One connection, on which a gateway says that it is there and learns the last version
//! ([`Exchange::beat`]), writes its demand, and runs a round of the writer. What is computed in
//! between is handed in. Every wait has its bound, on this side and in the database, for a
//! transaction that hangs would hold up every gateway.

pub mod overview;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Row};

use super::{CONNECT_PATIENCE, CONNECTING, PostgresError, options, within};
use crate::limit::demand::Demanded;
use crate::rules::layer::ANY;
use crate::rules::ledger::{Asked, Beat, Change, Granted, Grants, Ledger};

/// How long the database may take for any of it.
const PATIENCE: Duration = Duration::from_secs(5);
const SAYING: &str = "telling the other regions of this gateway";
const READING: &str = "reading this region's shares";
const DEMAND: &str = "writing this gateway's demand";
const WRITING: &str = "computing the regions' shares";

/// One writer at a time; this number is nobody else's.
const LOCK: i64 = 0x6166_6f72_6f72;

// The row of region_writer is locked against a round, and read as it is after one that came first:
// a statement's own view may be older, but not what a lock waits for. A word that was stuck on its way
// and comes after a later one changes nothing: it does not know what was put into force since.
const BEAT: &str = "with writer as (select version, round, writer from region_writer for share), \
     word as (insert into region_gateway \
         (region, gateway, base, lease_seconds, instances, applied, pending, beat) \
         select $1, $2, $3, $4, $5, $6, writer.version, $7 from writer \
         on conflict (region, gateway) do update set base = excluded.base, \
             lease_seconds = excluded.lease_seconds, instances = excluded.instances, \
             applied = greatest(region_gateway.applied, excluded.applied), \
             pending = excluded.pending, beat = excluded.beat, at = now() \
         where region_gateway.beat < excluded.beat returning pending) \
     select word.pending, writer.round, writer.writer from word, writer";
const GRANTS: &str = "select version, region, tenant_id, share, base, home from region_share \
     where version = any($1)";
const GATEWAYS: &str = "select region, gateway, base, lease_seconds, instances, applied, pending, \
     beat from region_gateway order by region, gateway";

/// What a gateway learns in return for a sign of life.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The last version; 0: there is none.
    pub version: i64,
    /// Another number with each round of the writer.
    pub round: i64,
    /// Who ran it.
    pub writer: String,
}

/// A connection to the other regions.
pub struct Exchange(PgConnection);

impl Exchange {
    /// Connects.
    ///
    /// # Errors
    ///
    /// Where the database cannot be reached, or does not let us.
    pub async fn connect(url: &str) -> Result<Self, PostgresError> {
        let options = options(url)?.options([
            ("statement_timeout", "5s"),
            ("lock_timeout", "4s"),
            ("idle_in_transaction_session_timeout", "5s"),
            // Whatever is usual there: a round must see what was said before it got its lock, and
            // what a gateway was told must not be forgotten.
            ("default_transaction_isolation", "read committed"),
            ("synchronous_commit", "on"),
        ]);
        let connecting = PgConnection::connect_with(&options);
        let connection = within(CONNECT_PATIENCE, CONNECTING, connecting).await?;
        Ok(Self(connection))
    }

    /// Says that a gateway is there and what is in force in it, and gives the last version, in one
    /// step: no round of the writer happens in between. `beat.pending` is not looked at.
    ///
    /// # Errors
    ///
    /// Where the database does not answer. Then nobody knows whether it has heard.
    pub async fn beat(&mut self, beat: &Beat) -> Result<Told, PostgresError> {
        let query = sqlx::query(BEAT)
            .bind(&beat.region)
            .bind(&beat.gateway)
            .bind(beat.base)
            .bind(beat.lease.as_secs_f64())
            .bind(i32::try_from(beat.instances).unwrap_or(i32::MAX))
            .bind(beat.applied)
            .bind(beat.beat)
            .fetch_one(&mut self.0);
        let row = within(PATIENCE, SAYING, query).await?;
        let read = || -> sqlx::Result<Told> {
            Ok(Told {
                version: row.try_get(0)?,
                round: row.try_get(1)?,
                writer: row.try_get(2)?,
            })
        };
        read().map_err(failed(SAYING))
    }

    /// What all regions were granted in a version that [`Exchange::beat`] told of.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn grants(&mut self, version: i64) -> Result<Grants, PostgresError> {
        let mut versions = grants(&mut self.0, &[version]).await?;
        Ok(versions.remove(&version).unwrap_or_default())
    }

    /// Puts a gateway's demand in the place of what it wrote before.
    ///
    /// # Errors
    ///
    /// Where the database does not answer. Then the demand is the old one or the new one.
    pub async fn demand(
        &mut self,
        region: &str,
        gateway: &str,
        demand: &[Demanded],
    ) -> Result<(), PostgresError> {
        let writing = async {
            let mut transaction = self.0.begin().await?;
            sqlx::query("delete from region_demand where region = $1 and gateway = $2")
                .bind(region)
                .bind(gateway)
                .execute(&mut *transaction)
                .await?;
            let column = |of: fn(&Demanded) -> &str| demand.iter().map(of).collect::<Vec<_>>();
            let number = |of: fn(&Demanded) -> f64| demand.iter().map(of).collect::<Vec<_>>();
            sqlx::query(
                "insert into region_demand \
                 (region, gateway, tenant_id, route_id, demand, refill_per_second) \
                 select $1, $2, * from unnest($3::text[], $4::text[], $5::float8[], $6::float8[])",
            )
            .bind(region)
            .bind(gateway)
            .bind(column(|one| &one.tenant))
            .bind(column(|one| &one.route))
            .bind(number(|one| one.tokens_per_second))
            .bind(number(|one| one.refill_per_second))
            .execute(&mut *transaction)
            .await?;
            transaction.commit().await
        };
        within(PATIENCE, DEMAND, writing).await
    }

    /// Runs a round: reads everything, lets `compute` say what changes, and writes that, with
    /// nothing else in between. `compute` gets the demand of all regions once a `period`. False:
    /// another writer is at it.
    ///
    /// # Errors
    ///
    /// Where the database does not answer. Then nobody knows whether something has changed.
    pub async fn round(
        &mut self,
        writer: &str,
        period: Duration,
        compute: impl FnOnce(&Ledger, Option<&[Asked]>) -> Change,
    ) -> Result<bool, PostgresError> {
        let mut transaction = within(PATIENCE, WRITING, self.0.begin()).await?;
        let lock = sqlx::query_scalar("select pg_try_advisory_xact_lock($1)")
            .bind(LOCK)
            .fetch_one(&mut *transaction);
        if !within::<bool>(PATIENCE, WRITING, lock).await? {
            within(PATIENCE, WRITING, transaction.rollback()).await?;
            return Ok(false);
        }
        let turn = sqlx::query(
            "select version, memory, \
             not coalesce(abs(extract(epoch from now() - nullif(computed_at, '-infinity'))) < $1, \
                          false) \
             from region_writer for update",
        )
        .bind(period.as_secs_f64())
        .fetch_one(&mut *transaction);
        let turn = within(PATIENCE, WRITING, turn).await?;
        let read = || -> sqlx::Result<(i64, String, bool)> {
            Ok((turn.try_get(0)?, turn.try_get(1)?, turn.try_get(2)?))
        };
        let (version, memory, due) = read().map_err(failed(WRITING))?;
        let ledger = ledger(&mut transaction, version, memory).await?;
        let asked = if due {
            Some(asked(&mut transaction, period).await?)
        } else {
            None
        };
        let change = compute(&ledger, asked.as_deref());
        let writing = write(&mut transaction, writer, &ledger, due, &change);
        within(PATIENCE, WRITING, writing).await?;
        within(PATIENCE, WRITING, transaction.commit()).await?;
        Ok(true)
    }
}

async fn ledger(
    connection: &mut PgConnection,
    version: i64,
    memory: String,
) -> Result<Ledger, PostgresError> {
    let rows = sqlx::query(GATEWAYS).fetch_all(&mut *connection);
    let rows = within(PATIENCE, WRITING, rows).await?;
    let gateways = rows.iter().map(beat_of).collect::<sqlx::Result<Vec<_>>>();
    let gateways = gateways.map_err(failed(WRITING))?;
    let of_gateways = gateways.iter().flat_map(|one| [one.applied, one.pending]);
    let versions: BTreeSet<i64> = of_gateways.chain([version]).collect();
    let versions: Vec<i64> = versions.into_iter().collect();
    Ok(Ledger {
        version,
        grants: grants(connection, &versions).await?,
        gateways,
        memory,
    })
}

async fn grants(
    connection: &mut PgConnection,
    versions: &[i64],
) -> Result<BTreeMap<i64, Grants>, PostgresError> {
    let rows = sqlx::query(GRANTS).bind(versions).fetch_all(connection);
    let rows = within(PATIENCE, READING, rows).await?;
    granted_in(&rows).map_err(failed(READING))
}

fn granted_in(rows: &[PgRow]) -> sqlx::Result<BTreeMap<i64, Grants>> {
    let mut versions: BTreeMap<i64, Grants> = BTreeMap::new();
    for row in rows {
        let grants = versions.entry(row.try_get(0)?).or_default();
        let region = grants.entry(row.try_get(1)?).or_insert(Granted {
            base: row.try_get(4)?,
            home: row.try_get(5)?,
            share: 0.0,
            tenants: BTreeMap::new(),
        });
        let tenant: String = row.try_get(2)?;
        if tenant == ANY {
            region.share = row.try_get(3)?;
        } else {
            region.tenants.insert(tenant, row.try_get(3)?);
        }
    }
    Ok(versions)
}

fn beat_of(row: &PgRow) -> sqlx::Result<Beat> {
    Ok(Beat {
        region: row.try_get(0)?,
        gateway: row.try_get(1)?,
        base: row.try_get(2)?,
        // Whatever somebody wrote there by hand: too long is safe.
        lease: Duration::try_from_secs_f64(row.try_get(3)?).unwrap_or(Duration::MAX),
        instances: u32::try_from(row.try_get::<i32, _>(4)?).unwrap_or_default(),
        applied: row.try_get(5)?,
        pending: row.try_get(6)?,
        beat: row.try_get(7)?,
    })
}

/// What all regions asked for lately, added up, and without what is too old.
async fn asked(
    connection: &mut PgConnection,
    period: Duration,
) -> Result<Vec<Asked>, PostgresError> {
    let old = sqlx::query(
        "delete from region_demand where at < now() - make_interval(secs => 2.5 * $1) \
         or at > now() + make_interval(secs => 2.5 * $1)",
    )
    .bind(period.as_secs_f64())
    .execute(&mut *connection);
    within(PATIENCE, WRITING, old).await?;
    let rows = sqlx::query(
        "select region, tenant_id, route_id, sum(demand), max(refill_per_second) \
         from region_demand group by region, tenant_id, route_id",
    )
    .fetch_all(connection);
    let rows = within(PATIENCE, WRITING, rows).await?;
    let asked: sqlx::Result<Vec<Asked>> = rows.iter().map(asked_of).collect();
    asked.map_err(failed(WRITING))
}

fn asked_of(row: &PgRow) -> sqlx::Result<Asked> {
    Ok(Asked {
        region: row.try_get(0)?,
        tenant: row.try_get(1)?,
        route: row.try_get(2)?,
        demand: row.try_get(3)?,
        refill: row.try_get(4)?,
    })
}

async fn write(
    connection: &mut PgConnection,
    writer: &str,
    ledger: &Ledger,
    due: bool,
    change: &Change,
) -> sqlx::Result<()> {
    // By the clock too, so that no version comes twice where the database has forgotten some. What
    // counts is only that each is above all before it.
    let next = sqlx::query_scalar(
        "update region_writer set version = case when $1 \
             then greatest($2 + 1, (extract(epoch from now()) * 1000)::bigint) else version end, \
         round = round + 1, writer = $3, memory = $4, \
         computed_at = case when $5 then now() else computed_at end \
         where version = $6 returning version",
    )
    .bind(change.grants.is_some())
    .bind(ledger.last_known())
    .bind(writer)
    .bind(&change.memory)
    .bind(due)
    // Cannot be another one while the row is locked; if it is, what was computed is worth nothing,
    // and no row is an error.
    .bind(ledger.version);
    let next: i64 = next.fetch_one(&mut *connection).await?;
    for (region, gateway) in &change.gone {
        for text in [
            "delete from region_gateway where region = $1 and gateway = $2",
            "delete from region_demand where region = $1 and gateway = $2",
        ] {
            let delete = sqlx::query(text).bind(region).bind(gateway);
            delete.execute(&mut *connection).await?;
        }
    }
    if let Some(grants) = &change.grants {
        insert(connection, next, grants).await?;
    }
    sqlx::query(
        "delete from region_share where version <> $1 and version not in \
         (select applied from region_gateway union select pending from region_gateway)",
    )
    .bind(next)
    .execute(connection)
    .await?;
    Ok(())
}

async fn insert(connection: &mut PgConnection, version: i64, grants: &Grants) -> sqlx::Result<()> {
    let (mut regions, mut tenants, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bases, mut homes) = (Vec::new(), Vec::new());
    for (region, granted) in grants {
        let named = granted.tenants.iter().map(|(name, share)| (&**name, share));
        for (tenant, share) in named.chain([(ANY, &granted.share)]) {
            regions.push(region.as_str());
            tenants.push(tenant);
            shares.push(*share);
            bases.push(granted.base);
            homes.push(granted.home);
        }
    }
    sqlx::query(
        "insert into region_share (version, region, tenant_id, route_id, share, base, home) \
         select $1, region, tenant, '*', share, base, home from unnest(\
         $2::text[], $3::text[], $4::float8[], $5::float8[], $6::bool[]) \
         as granted (region, tenant, share, base, home)",
    )
    .bind(version)
    .bind(regions)
    .bind(tenants)
    .bind(shares)
    .bind(bases)
    .bind(homes)
    .execute(connection)
    .await?;
    Ok(())
}

fn failed(doing: &'static str) -> impl Fn(sqlx::Error) -> PostgresError {
    move |error| PostgresError::Failed { doing, error }
}
