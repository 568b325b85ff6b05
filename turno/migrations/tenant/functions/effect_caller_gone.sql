-- The process that held this claim has ended and was reaped by its supervisor: it makes no outside call any more.
CREATE OR REPLACE FUNCTION effect_caller_gone(p_token uuid) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    UPDATE external_effects SET caller_gone = true WHERE token = p_token AND state = 'intended';
END;
