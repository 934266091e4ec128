-- Several regions that share every limit. Nobody but gateways writes these tables: see docs/regions.md.

-- What gateways were asked for, allowed or not: each writes its busiest pairs once a period, and rows
-- that are not written anew are removed.
create table region_demand (
    region            varchar(64) not null,
    gateway           varchar(64) not null,
    tenant_id         varchar(64) not null,
    route_id          varchar(64) not null,
    -- Tokens in a second.
    demand            double precision not null,
    -- Tokens that the whole limit, over all regions, gives in a second.
    refill_per_second double precision not null,
    at                timestamptz not null default now(),
    primary key (region, gateway, tenant_id, route_id)
);

-- What each region was granted. A version is written as a whole and never changed; those that no
-- gateway may have in force any more are removed. Tenant and route '*': every limit of a tenant
-- that is not named.
create table region_share (
    version   bigint not null,
    region    varchar(64) not null,
    tenant_id varchar(64) not null,
    route_id  varchar(64) not null,
    share     double precision not null,
    at        timestamptz not null default now(),
    -- The region's base share, and whether it holds what is too small to be split.
    base      double precision not null,
    home      boolean not null,
    primary key (version, region, tenant_id, route_id)
);

-- What each gateway said of itself last.
create table region_gateway (
    region        varchar(64) not null,
    -- One process; its name is never used again.
    gateway       varchar(64) not null,
    base          double precision not null,
    -- How long it holds what is above its base share without a word from here.
    lease_seconds double precision not null,
    -- How many gateways its region has, as far as it knows.
    instances     int not null,
    -- The version in force there, and the last one at the moment of its word.
    applied       bigint not null,
    pending       bigint not null,
    -- The number of its last word: an earlier one that comes late changes nothing. Nobody compares times of day.
    beat          bigint not null,
    at            timestamptz not null default now(),
    primary key (region, gateway)
);

-- One row: the last version, by which a writer is fenced off that computed from an older one. Its
-- lock orders every gateway's word before or after every change of the shares.
create table region_writer (
    version     bigint not null,
    -- Another number with each round, and whose round it was.
    round       bigint not null,
    writer      text not null,
    -- When shares were last moved.
    computed_at timestamptz not null,
    memory      text not null
);
create unique index region_writer_has_one_row on region_writer ((true));
insert into region_writer values (0, 0, '', '-infinity', '');
