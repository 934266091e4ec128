//! What is asked, of whom, and when: fixed before the first request.

use std::time::Duration;

use aforo::limit::{BucketKey, Rule};
use aforo::store::redis::key::bucket_key;

use crate::kit::open_loop::moments;
use crate::kit::zipf::Zipf;
use crate::server::Server;

pub const GATEWAYS: usize = 20;
pub const ROUTE: &str = "r";
/// Demand over limit, of who is over it.
pub const OVER: f64 = 1.5;

/// A tenant, and the rule that it is held to.
pub struct Key {
    pub tenant: String,
    pub rule: Rule,
    /// How its requests are spread over gateways; empty in the field.
    pub spread: &'static str,
    /// Whether it asks for more than it may.
    pub over: bool,
    /// Whether its bucket is to be empty at first.
    drained: bool,
}

/// One request.
#[derive(Clone, Copy)]
pub struct Arrival {
    pub key: u32,
    pub gateway: u8,
}

/// Requests in the order of their moments.
pub struct Traffic {
    pub keys: Vec<Key>,
    /// Nanoseconds since the beginning.
    pub moments: Vec<u64>,
    pub arrivals: Vec<Arrival>,
}

impl Traffic {
    /// Many tenants, of whom the busiest are most of the traffic. The ten busiest may do 20,000
    /// requests a second, the first thousand 2,000, the others 50; but every seventh of the first
    /// thousand asks for three times its limit. Each request goes to any gateway, or, with
    /// `sticky`, each tenant to one.
    pub fn field(rate: f64, tenants: usize, exponent: f64, sticky: bool, time: Duration) -> Self {
        let zipf = Zipf::new(tenants, exponent);
        let keys = (0..tenants).map(|rank| {
            let over = rank % 7 == 6 && rank < 1_000;
            let rule = match rank {
                _ if over => {
                    let refill = rate * zipf.share(rank) / 3.0;
                    Rule::new((2.0 * refill).ceil() as u32, refill)
                }
                0..10 => Rule::new(40_000, 20_000.0),
                10..1_000 => Rule::new(4_000, 2_000.0),
                _ => Rule::new(100, 50.0),
            };
            Key {
                tenant: format!("tenant-{rank:06}"),
                rule: rule.unwrap(),
                spread: "",
                over,
                drained: over,
            }
        });
        let keys = keys.collect();
        let mut random = fastrand::Rng::with_seed(6);
        let moments = moments(&mut random, rate, time);
        let arrivals = moments.iter().map(|_| {
            let key = zipf.pick(&mut random);
            let gateway = if sticky {
                key * 7 % GATEWAYS
            } else {
                random.usize(0..GATEWAYS)
            };
            Arrival {
                key: key as u32,
                gateway: gateway as u8,
            }
        });
        Self {
            keys,
            arrivals: arrivals.collect(),
            moments,
        }
    }

    /// Tenants that ask for half as much again as they may, evenly at all gateways, skewed, or at
    /// one alone; the last of them takes what is left of the rate.
    pub fn overload(rate: f64, time: Duration) -> Self {
        let mut keys = Vec::new();
        let mut demands = Vec::new();
        let limits = [(20, 10.0), (100, 50.0), (1_000, 500.0), (4_000, 2_000.0)];
        for spread in ["even", "skewed", "one"] {
            for (capacity, refill) in limits {
                keys.push(Key::over(capacity, refill, spread));
                demands.push(refill * OVER);
            }
        }
        let left = rate - demands.iter().sum::<f64>();
        let refill = (left / OVER).max(100.0).floor();
        keys.push(Key::over((2.0 * refill) as u32, refill, "even"));
        demands.push(refill * OVER);

        let skewed = Zipf::new(GATEWAYS, 1.0);
        let mut random = fastrand::Rng::with_seed(7);
        let mut all: Vec<(u64, Arrival)> = Vec::new();
        for (number, (key, demand)) in keys.iter().zip(demands).enumerate() {
            for moment in moments(&mut random, demand, time) {
                let gateway = match key.spread {
                    "even" => random.usize(0..GATEWAYS),
                    "skewed" => skewed.pick(&mut random),
                    _ => 7,
                };
                let arrival = Arrival {
                    key: number as u32,
                    gateway: gateway as u8,
                };
                all.push((moment, arrival));
            }
        }
        all.sort_unstable_by_key(|(moment, _)| *moment);
        let (moments, arrivals) = all.into_iter().unzip();
        Self {
            keys,
            moments,
            arrivals,
        }
    }

    /// Empties the buckets of those who are over their limit, so that the load is steady at once.
    pub fn prepare(&self, server: &Server) {
        const EMPTY: &str = "local t = redis.call('TIME') \
            local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)) \
            for _, key in ipairs(KEYS) do \
            redis.call('HSET', key, 'tokens', '0', 'ts', now) redis.call('PEXPIRE', key, '60000') end";
        let drained = self.keys.iter().filter(|key| key.drained);
        let names: Vec<String> = drained.map(|key| bucket_key(&key.of())).collect();
        let count = names.len().to_string();
        let mut words = vec!["EVAL", EMPTY, &count];
        words.extend(names.iter().map(String::as_str));
        server.query::<()>(&words);
    }
}

impl Key {
    fn over(capacity: u32, refill: f64, spread: &'static str) -> Self {
        Self {
            tenant: format!("over-{capacity}-{spread}"),
            rule: Rule::new(capacity, refill).unwrap(),
            spread,
            over: true,
            drained: true,
        }
    }

    pub fn of(&self) -> BucketKey<'_> {
        BucketKey {
            tenant: &self.tenant,
            route: ROUTE,
        }
    }

    /// The most that all gateways may hold of it.
    pub fn leased(&self, batch: u32) -> f64 {
        let n = GATEWAYS as f64;
        let by_limit = (0.05 * (self.rule.capacity + self.rule.refill_per_second) / n).floor();
        let by_capacity = (self.rule.capacity / (2.0 * n)).floor();
        n * (2.0 * f64::from(batch)).min(by_limit).min(by_capacity)
    }
}
