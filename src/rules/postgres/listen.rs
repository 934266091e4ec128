//! Hearing of changes: one connection that listens, and on which everything else is asked too.
//!
//! One connection for both means that notifications and answers cannot overtake each other, and
//! that whatever is asked finds out whether it is still alive. It is never mended: once it fails
//! it is dropped, and who holds it begins anew.

use futures_util::FutureExt;
use serde::Deserialize;
use sqlx::postgres::{PgConnection, PgListener, PgNotification, PgPoolOptions};
use sqlx::{Acquire, Connection};

use super::{CONNECT_PATIENCE, CONNECTING, PostgresError, SILENCE, connect, options, within};

#[cfg(test)]
mod tests;

/// The channel that the triggers notify.
const CHANNEL: &str = "rule_changed";
const DOING: &str = "listening for changes";

/// What a notification says.
#[derive(Debug, PartialEq, Eq)]
pub enum Changed {
    /// These rules, in a change of this number.
    Rules {
        /// What the change raised `rule_version` to.
        version: i64,
        /// Tenants and routes.
        pairs: Vec<(String, String)>,
    },
    /// Too many to be named. Or in words that we do not know, which is best taken for that.
    Any,
}

impl Changed {
    fn parse(payload: &str) -> Self {
        #[derive(Deserialize)]
        struct Rules {
            version: i64,
            rows: Vec<(String, String)>,
        }
        match serde_json::from_str(payload) {
            Ok(Rules { version, rows }) => Self::Rules {
                version,
                pairs: rows,
            },
            Err(_) => Self::Any,
        }
    }
}

/// A connection that listens.
pub struct Listener(PgListener);

impl Listener {
    /// Connects and listens from now on.
    ///
    /// # Errors
    ///
    /// Where the database cannot be reached, or does not let us.
    pub async fn connect(url: &str) -> Result<Self, PostgresError> {
        // A pool tries again by itself for as long as nobody answers. Here that is known at once.
        let first = connect(url).await?;
        within(SILENCE, CONNECTING, first.close()).await?;
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT_PATIENCE)
            .max_lifetime(None)
            .idle_timeout(None)
            .test_before_acquire(false)
            .connect_with(options(url)?);
        let pool = within(CONNECT_PATIENCE, CONNECTING, pool).await?;
        let mut listener = within(CONNECT_PATIENCE, DOING, PgListener::connect_with(&pool)).await?;
        listener.eager_reconnect(false);
        within(SILENCE, DOING, listener.listen(CHANNEL)).await?;
        Ok(Self(listener))
    }

    /// Waits for the next notification. May be dropped while it waits, without losing one.
    ///
    /// # Errors
    ///
    /// Where the connection is lost.
    pub async fn next(&mut self) -> Result<Changed, PostgresError> {
        let received = self.0.try_recv().await;
        changed(received)
    }

    /// A notification that is here already.
    ///
    /// # Errors
    ///
    /// Where the connection is lost.
    pub fn waiting(&mut self) -> Result<Option<Changed>, PostgresError> {
        match self.0.try_recv().now_or_never() {
            Some(received) => changed(received).map(Some),
            None => Ok(None),
        }
    }

    /// The connection, to ask something.
    ///
    /// # Errors
    ///
    /// Where it is lost.
    pub async fn connection(&mut self) -> Result<&mut PgConnection, PostgresError> {
        let connection = self.0.acquire().await;
        connection.map_err(|error| PostgresError::Failed {
            doing: DOING,
            error,
        })
    }

    /// Makes sure that the other side is still there: a connection may die without a word.
    ///
    /// # Errors
    ///
    /// Where it does not answer.
    pub async fn probe(&mut self) -> Result<(), PostgresError> {
        let connection = self.connection().await?;
        within(SILENCE, DOING, connection.ping()).await
    }
}

fn changed(
    received: Result<Option<PgNotification>, sqlx::Error>,
) -> Result<Changed, PostgresError> {
    match received {
        Ok(Some(notification)) => Ok(Changed::parse(notification.payload())),
        Ok(None) => Err(PostgresError::Lost),
        Err(error) => Err(PostgresError::Failed {
            doing: DOING,
            error,
        }),
    }
}
