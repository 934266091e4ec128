-- How gateways hear of a change. Every statement that changes rules, TRUNCATE and COPY included,
-- raises rule_version within its own transaction and sends one notification on rule_changed:
--
--   {"version" : 17, "rows" : [["shop-a", "create-order"]]}   the rules that changed
--   *                                                         more than 100, or too long a list
--
-- Writers hold the one row of rule_version until they commit. So commits come in the order of
-- their numbers, none is skipped, and who has read number 17 has seen all that came before it.

create table rule_version (n bigint not null);
create unique index rule_version_has_one_row on rule_version ((true));
insert into rule_version values (1);

-- With its owner's rights: who may change rules need not be allowed to change rule_version. What
-- it names is qualified or pinned, so that nobody can put another table in its place.
create function rate_limit_rule_changed() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    changed bigint;
    version bigint;
    rows    text;
begin
    -- 101 are enough to know that it is more than 100.
    if tg_op = 'INSERT' then
        select count(*) into changed from (select from new_rows limit 101) as first_rows;
    elsif tg_op in ('UPDATE', 'DELETE') then
        select count(*) into changed from (select from old_rows limit 101) as first_rows;
    else
        changed := 101;
    end if;
    -- A statement that found nothing to change fires its triggers all the same.
    if changed = 0 then
        return null;
    end if;

    execute format('update %I.rule_version set n = n + 1 returning n', tg_table_schema) into version;
    if version is null then
        -- Somebody emptied the table. A number that no gateway can have seen makes them all load.
        execute format('insert into %I.rule_version values ($1) returning n', tg_table_schema)
           into version
          using (extract(epoch from clock_timestamp()) * 1000)::bigint;
    end if;

    if changed <= 100 then
        -- An update that renames a rule changes the old pair and the new one.
        if tg_op = 'INSERT' then
            select json_agg(json_build_array(tenant_id, route_id))
              into rows from new_rows;
        elsif tg_op = 'DELETE' then
            select json_agg(json_build_array(tenant_id, route_id))
              into rows from old_rows;
        else
            select json_agg(json_build_array(tenant_id, route_id))
              into rows
              from (select tenant_id, route_id from old_rows
                    union
                    select tenant_id, route_id from new_rows) as pairs;
        end if;
        rows := format('{"version" : %s, "rows" : %s}', version, rows);
    end if;
    -- PostgreSQL takes payloads below 8000 bytes.
    if rows is null or octet_length(rows) > 7999 then
        rows := '*';
    end if;
    perform pg_notify('rule_changed', rows);
    return null;
end
$$;

create trigger rule_inserted after insert on rate_limit_rule
    referencing new table as new_rows
    for each statement execute function rate_limit_rule_changed();
create trigger rule_updated after update on rate_limit_rule
    referencing old table as old_rows new table as new_rows
    for each statement execute function rate_limit_rule_changed();
create trigger rule_deleted after delete on rate_limit_rule
    referencing old table as old_rows
    for each statement execute function rate_limit_rule_changed();
create trigger rule_truncated after truncate on rate_limit_rule
    for each statement execute function rate_limit_rule_changed();
