-- Analyze each control table that is several times as large as its statistics know; returns how many. Autovacuum does so
-- minutes later, and until then the planner reads a million fresh rows as if the table were empty.
CREATE OR REPLACE FUNCTION analyze_grown() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    grown regclass;
    analyzed bigint := 0;
BEGIN
    FOR grown IN
        SELECT c.oid::regclass FROM pg_catalog.pg_class c
        WHERE c.relnamespace = 'turno'::regnamespace AND c.relkind = 'r'
          AND pg_relation_size(c.oid) > greatest(1048576, 4 * c.relpages::bigint * current_setting('block_size')::bigint)
    LOOP
        EXECUTE format('ANALYZE (SKIP_LOCKED) %s', grown);
        analyzed := analyzed + 1;
    END LOOP;
    RETURN analyzed;
END $$;
