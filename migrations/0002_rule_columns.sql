-- What a rule can say beside its bucket. Each column has a default that changes nothing, so that
-- readers and writers of the table as it was go on as they are.

alter table rate_limit_rule
    -- The rate is refill_per_second / period_seconds: one a minute is 1 and 60.
    add column period_seconds int not null default 1 check (period_seconds > 0),
    -- Into how many sub-buckets a hot bucket is split.
    add column shards int not null default 1,
    -- Decide and count, never reject.
    add column shadow boolean not null default false,
    -- What happens while the store is away: local, open or closed.
    add column on_store_failure text not null default 'local',
    -- How many requests may be in flight at once; null is any number.
    add column concurrency int;
