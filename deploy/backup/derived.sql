-- For restore-tenant.sh and move-tenant.sh, in their transaction: makes anew what the control schema has of one tenant,
-- whose number is :tenant, from the schema :schema. Maintenance makes the tickets.
DELETE FROM turno.tickets WHERE tenant_id = :tenant;
DELETE FROM turno.counted_jobs c WHERE tenant_id = :tenant
    AND NOT EXISTS (SELECT FROM :schema.background_jobs j WHERE j.id = c.job_id AND j.finished_at IS NOT NULL);
DELETE FROM turno.dead_letters WHERE tenant_id = :tenant;
-- By a name that a backup of an older release may lack.
INSERT INTO turno.dead_letters (job_id, tenant_id, type, error, died_at, concurrency_key, key_position, closed_at, closed_as)
SELECT d.job_id, :tenant, d.type, turno.error_group(j.error), d.died_at, to_jsonb(j) ->> 'concurrency_key',
       (to_jsonb(j) ->> 'key_position')::bigint, coalesce(d.replayed_at, d.discarded_at),
       CASE WHEN d.replayed_at IS NOT NULL THEN 'replayed' WHEN d.discarded_at IS NOT NULL THEN 'discarded' END
FROM :schema.background_jobs_dead_letter d JOIN :schema.background_jobs j ON j.id = d.job_id;
-- Of a job that is open again, whoever is to be told: also if it was told of another end since. With the columns that
-- there are, but for the row's number, which another row may have by now.
DELETE FROM turno.callbacks c WHERE tenant_id = :tenant
    AND NOT EXISTS (SELECT FROM :schema.background_jobs j WHERE j.id = c.job_id);
UPDATE saved_callbacks SET tenant_id = :tenant;
SELECT format('INSERT INTO turno.callbacks (%1$s) SELECT %1$s FROM saved_callbacks c WHERE EXISTS (SELECT FROM %2$s.background_jobs j'
              ' WHERE j.id = c.job_id AND j.finished_at IS NULL) ON CONFLICT DO NOTHING',
              string_agg(quote_ident(attname), ', '), :'schema')
FROM pg_catalog.pg_attribute
WHERE attrelid = 'turno.callbacks'::pg_catalog.regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'id' \gexec
-- Subscribers from the beginning have a job for each event there is: what is missing here, maintenance gives them.
UPDATE turno.subscriptions SET backlog = true WHERE from_beginning;
-- A trigger copies each schedule anew; a backup of an older release has none.
SET row_security = on;
DELETE FROM turno.schedules WHERE tenant_id = :tenant;
SELECT to_regclass(:'schema' || '.job_schedules') IS NOT NULL AS scheduled \gset
\if :scheduled
UPDATE :schema.job_schedules SET name = name;
\endif
