CREATE OR REPLACE FUNCTION worker_start(p_backend text, p_host text, p_pid integer) RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    INSERT INTO workers (backend, host, pid) VALUES (p_backend, p_host, p_pid) RETURNING id;
END;
