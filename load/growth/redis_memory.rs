//! What buckets take in a Redis of its own, written by the gateway's own store and script.

use std::sync::Arc;

use aforo::limit::{Ask, BucketKey, BucketStore, Rule};
use aforo::store::{RedisStore, redis};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Builder;

use crate::harness::{self, Redis};

const TENANTS: usize = 100_000;
const ROUTES: [&str; 3] = ["create-order", "list-orders", "get-order"];
const CALLS: usize = 128;

/// What came out.
#[derive(Clone, Copy, Debug)]
pub struct RedisMemory {
    pub buckets: usize,
    /// What Redis says it uses, empty and with them, in bytes.
    pub empty: usize,
    pub full: usize,
}

impl RedisMemory {
    /// Bytes a bucket.
    pub fn per_bucket(&self) -> f64 {
        (self.full - self.empty) as f64 / self.buckets as f64
    }
}

/// Fills a Redis.
pub fn measure() -> RedisMemory {
    let redis = Redis::start();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let url = redis.url();
    let empty = runtime.block_on(async {
        let store = RedisStore::new(&redis::Settings {
            url: &url,
            tls: &aforo::store::redis::access::TlsFiles::default(),
            budget: harness::PATIENCE,
            max_in_flight: CALLS,
        });
        let store = Arc::new(store.unwrap());
        store.connect(harness::PATIENCE).await;
        // What a connection and the script take is not the buckets'.
        take(&store, "tenant-000000", "warm").await;
        let empty = used(&redis);
        let mut calls = FuturesUnordered::new();
        for n in 0..TENANTS * ROUTES.len() {
            if calls.len() == CALLS {
                calls.next().await;
            }
            let store = Arc::clone(&store);
            let tenant = format!("tenant-{:06}", n / ROUTES.len());
            calls.push(async move { take(&store, &tenant, ROUTES[n % ROUTES.len()]).await });
        }
        while calls.next().await.is_some() {}
        empty
    });
    let keys: usize = redis.query(&["DBSIZE"]);
    assert_eq!(keys, TENANTS * ROUTES.len() + 1);
    let measured = RedisMemory {
        buckets: keys - 1,
        empty,
        full: used(&redis),
    };
    println!("{measured:?}");
    measured
}

async fn take(store: &RedisStore, tenant: &str, route: &str) {
    // Slow enough that none ends meanwhile, and with fractions of tokens as real ones have.
    let rule = Rule::new(50, 0.025).unwrap();
    let key = BucketKey { tenant, route };
    let grant = store.take(&key, &rule, &Ask::one(1)).finish().await;
    assert_eq!(grant.unwrap().granted, 1);
}

fn used(redis: &Redis) -> usize {
    let info: String = redis.query(&["INFO", "memory"]);
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    line.unwrap().trim().parse().unwrap()
}
