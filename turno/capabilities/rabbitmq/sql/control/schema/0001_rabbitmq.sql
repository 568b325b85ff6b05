INSERT INTO backends VALUES ('rabbitmq', true);
-- The order in which the relay reads tickets, and the count of a tenant's messages in the broker.
CREATE INDEX tickets_unpublished ON tickets (type, version, tenant_id, priority, run_at, job_id)
    WHERE state = 'ready' AND backend = 'rabbitmq' AND published_at IS NULL;
CREATE INDEX tickets_published ON tickets (tenant_id, published_at)
    WHERE state = 'ready' AND backend = 'rabbitmq' AND published_at IS NOT NULL;
