-- The key registry. It holds hashes alone: who reads the table learns no key.

create table api_key (
    key_sha256 bytea primary key check (octet_length(key_sha256) = 32),
    tenant_id  varchar(64) not null,
    created_at timestamptz not null default now(),
    revoked_at timestamptz
);
