-- The process that held this claim has ended and was buried by its parent: whatever call it was making, it makes no more.
CREATE OR REPLACE FUNCTION effect_caller_gone(p_token uuid) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    UPDATE external_effects SET caller_gone = true WHERE token = p_token AND state = 'intended';
END;
