-- Give each of these tickets a backend, in step; returns how many have it. A refused ticket is set aside.
CREATE OR REPLACE FUNCTION stamp_tickets(p_jobs uuid[], p_backends text[]) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    stamped bigint;
    one bigint;
BEGIN
    BEGIN
        UPDATE tickets t SET backend = s.backend, published_at = NULL
        FROM unnest(p_jobs, p_backends) AS s (job_id, backend) WHERE t.job_id = s.job_id;
        GET DIAGNOSTICS stamped = ROW_COUNT;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        stamped := 0;
        FOR i IN 1 .. cardinality(p_jobs) LOOP
            BEGIN
                UPDATE tickets SET backend = p_backends[i], published_at = NULL WHERE job_id = p_jobs[i];
                GET DIAGNOSTICS one = ROW_COUNT;
                stamped := stamped + one;
            EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
                PERFORM set_aside(p_jobs[i], SQLERRM);
            END;
        END LOOP;
    END;
    RETURN stamped;
END $$;
