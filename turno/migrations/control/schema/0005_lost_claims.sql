-- 'claim_lost': an attempt found that its claim had been taken back, and wrote nothing.
ALTER TABLE outcomes DROP CONSTRAINT outcomes_outcome_check;
ALTER TABLE outcomes ADD CONSTRAINT outcomes_outcome_check CHECK (outcome IN (
    'completed', 'failed', 'cancelled', 'retried', 'crashed', 'rescheduled', 'released', 'rescued', 'claim_lost'));
