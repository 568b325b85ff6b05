-- For restore-tenant.sh and move-tenant.sh, in their transaction: derives the control schema's rows of tenant :tenant
-- from the schema :schema. Maintenance makes the tickets.
DELETE FROM turno.tickets WHERE tenant_id = :tenant;
-- Jobs that are open again, or that the backup lacks, leave the list of ended jobs; their outcomes stay counted.
UPDATE turno.outcome_batches b
SET jobs = ARRAY(SELECT j.id FROM unnest(b.jobs) WITH ORDINALITY AS o (job_id, place)
                 LEFT JOIN :schema.background_jobs j ON j.id = o.job_id AND j.finished_at IS NOT NULL ORDER BY o.place)
WHERE tenant_id = :tenant;
DELETE FROM turno.dead_letters WHERE tenant_id = :tenant;
-- By a name that a backup of an older release may lack.
INSERT INTO turno.dead_letters (job_id, tenant_id, type, error, died_at, concurrency_key, key_position, closed_at, closed_as)
SELECT d.job_id, :tenant, d.type, turno.error_group(j.error), d.died_at, to_jsonb(j) ->> 'concurrency_key',
       (to_jsonb(j) ->> 'key_position')::bigint, coalesce(d.replayed_at, d.discarded_at),
       CASE WHEN d.replayed_at IS NOT NULL THEN 'replayed' WHEN d.discarded_at IS NOT NULL THEN 'discarded' END
FROM :schema.background_jobs_dead_letter d JOIN :schema.background_jobs j ON j.id = d.job_id;
-- Jobs that ran to their end with failed items; a discarded one is open again.
INSERT INTO turno.dead_letters (job_id, tenant_id, type, outcome, error, items_done, items_failed, died_at, closed_at, closed_as)
SELECT j.id, :tenant, j.type, CASE WHEN p.done > 0 THEN 'completed_with_failures' ELSE 'nothing_done' END,
       coalesce((SELECT turno.error_group(i.error) FROM :schema.background_job_items i
                 WHERE i.job_id = j.id AND i.state = 'failed' GROUP BY 1 ORDER BY count(*) DESC LIMIT 1), 'Error'),
       p.done, p.failed, j.finished_at, o.created_at, CASE WHEN o.id IS NOT NULL THEN 'replayed' END
FROM :schema.background_jobs j JOIN :schema.background_job_progress p ON p.job_id = j.id AND p.failed > 0
LEFT JOIN :schema.background_jobs o ON o.id = j.successor_id
WHERE j.status = 'completed'
  AND NOT EXISTS (SELECT FROM :schema.background_job_progress w WHERE w.job_id = j.awaited_by AND w.total > 0);
-- Webhooks and mails of jobs that are open again, also if an end was delivered since. With the columns that exist, except the
-- id, which another row may have by now.
DELETE FROM turno.webhooks c WHERE tenant_id = :tenant
    AND NOT EXISTS (SELECT FROM :schema.background_jobs j WHERE j.id = c.job_id AND j.finished_at IS NOT NULL);
UPDATE saved_webhooks SET tenant_id = :tenant;
SELECT format('INSERT INTO turno.webhooks (%1$s) SELECT %1$s FROM saved_webhooks c WHERE EXISTS (SELECT FROM %2$s.background_jobs j'
              ' WHERE j.id = c.job_id AND j.finished_at IS NULL) ON CONFLICT DO NOTHING',
              string_agg(quote_ident(attname), ', '), :'schema')
FROM pg_catalog.pg_attribute
WHERE attrelid = 'turno.webhooks'::pg_catalog.regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'id' \gexec
-- The tenant's rows in tables of capabilities: maintenance makes them anew from the schema.
SELECT format('DELETE FROM turno.%I WHERE tenant_id = %s', tablename, :tenant) FROM pg_catalog.pg_policies
WHERE schemaname = 'turno' AND starts_with(policyname, 'own_') AND cmd = 'ALL'
  AND tablename NOT IN ('tickets', 'dead_letters', 'webhooks') \gexec
SET row_security = on;
