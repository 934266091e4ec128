-- The rule table as it has been at users before Aforo kept its own migrations. Where it is there
-- already it is adopted with its rows, once its shape was verified: a table that only has the same
-- name is left alone, and the migration fails.

create table if not exists rate_limit_rule (
    id                bigserial primary key,
    tenant_id         varchar(64) not null,
    route_id          varchar(64) not null,
    capacity          int not null check (capacity > 0),
    refill_per_second int not null check (refill_per_second > 0),
    updated_at        timestamptz not null default now(),
    unique (tenant_id, route_id)
);

do $$
declare
    wrong text;
begin
    if (select relkind from pg_class where oid = 'rate_limit_rule'::regclass) not in ('r', 'p') then
        raise exception 'rate_limit_rule is there already, and is no table';
    end if;

    select string_agg(
               format('%s must be %s not null, but %s', expected.name, expected.type,
                      case
                          when found.attname is null then 'is missing'
                          else format('is %s%s', format_type(found.atttypid, found.atttypmod),
                                      case when found.attnotnull then ' not null' else '' end)
                      end),
               '; ' order by expected.place)
      into wrong
      from (values (1, 'tenant_id', 'character varying(64)'),
                   (2, 'route_id', 'character varying(64)'),
                   (3, 'capacity', 'integer'),
                   (4, 'refill_per_second', 'integer'),
                   (5, 'updated_at', 'timestamp with time zone')) as expected (place, name, type)
      left join pg_attribute as found
        on found.attrelid = 'rate_limit_rule'::regclass
       and found.attname = expected.name
       and not found.attisdropped
     where found.attname is null
        or format_type(found.atttypid, found.atttypmod) <> expected.type
        or not found.attnotnull;
    if wrong is not null then
        raise exception 'rate_limit_rule is there already, in another shape: %', wrong;
    end if;

    if not exists (
        select from pg_index
         where indrelid = 'rate_limit_rule'::regclass
           and indisunique and indpred is null and indexprs is null
           and (select array_agg(attname::text order by attname)
                  from pg_attribute
                 where attrelid = indrelid and attnum = any (indkey::int2[]))
               = array ['route_id', 'tenant_id']
    ) then
        raise exception 'rate_limit_rule is there already, but not unique by tenant_id and route_id';
    end if;
end
$$;
