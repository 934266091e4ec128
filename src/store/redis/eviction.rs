//! Whether a server that is full throws the right keys away.
//!
//! A bucket near the end of its time to live is full anyway, so `volatile-ttl` loses nothing that
//! matters. Other policies reset limits or leave Redis without room for anybody; a start says so.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Value, from_redis_value};
use tokio::time::timeout;

/// How long the server may take to say what its policy is.
const WITHIN: Duration = Duration::from_millis(500);

/// What is to be said about the server's eviction policy, if anything. A user who may not ask for
/// it hears nothing.
pub(super) async fn warning(connection: &MultiplexedConnection) -> Option<String> {
    let mut connection = connection.clone();
    let asked = async {
        match by_config(&mut connection).await {
            Some(answer) => Some(answer),
            None => by_info(&mut connection).await,
        }
    };
    let (policy, maxmemory) = timeout(WITHIN, asked).await.ok().flatten()?;
    judge(&policy, maxmemory)
}

/// What is to be said about a policy.
pub(super) fn judge(policy: &str, maxmemory: u64) -> Option<String> {
    const BETTER: &str =
        "a Redis of Aforo's own with maxmemory-policy volatile-ttl and enough maxmemory is right";
    if policy.starts_with("allkeys-") {
        return Some(format!(
            "maxmemory-policy is {policy}: a full Redis throws buckets away that are in use, and \
             their limits begin anew; {BETTER}"
        ));
    }
    (policy == "noeviction" && maxmemory > 0).then(|| {
        format!(
            "maxmemory-policy is noeviction with a maxmemory of {maxmemory} bytes: a full Redis \
             grows on with Aforo's buckets and refuses all other writers; {BETTER}"
        )
    })
}

async fn by_config(connection: &mut MultiplexedConnection) -> Option<(String, u64)> {
    let mut cmd = ::redis::cmd("CONFIG");
    cmd.arg("GET").arg("maxmemory*");
    let value: Value = cmd.query_async(connection).await.ok()?;
    let words: Vec<String> = from_redis_value(value).ok()?;
    let of = |name: &str| {
        let place = words.chunks_exact(2).find(|pair| pair[0] == name)?;
        Some(place[1].clone())
    };
    Some((of("maxmemory-policy")?, of("maxmemory")?.parse().ok()?))
}

async fn by_info(connection: &mut MultiplexedConnection) -> Option<(String, u64)> {
    let mut cmd = ::redis::cmd("INFO");
    cmd.arg("memory");
    let value: Value = cmd.query_async(connection).await.ok()?;
    let text: String = from_redis_value(value).ok()?;
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(':').map(str::to_owned)
    };
    Some((of("maxmemory_policy")?, of("maxmemory")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_policies_that_hurt_are_warned_about() {
        for (policy, maxmemory, warns) in [
            ("noeviction", 0, false),
            ("noeviction", 1 << 30, true),
            ("volatile-ttl", 1 << 30, false),
            ("volatile-lru", 1 << 30, false),
            ("allkeys-lru", 0, true),
            ("allkeys-random", 1 << 30, true),
            ("", 0, false),
        ] {
            assert_eq!(
                judge(policy, maxmemory).is_some(),
                warns,
                "{policy} {maxmemory}"
            );
        }
    }
}
