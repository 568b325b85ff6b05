-- The adoption of tenants.adopted_schema: the role that creates its tables, and the rights of handlers on them, which are
-- read, write, or a list such as orders:write,customers:read.
CREATE TABLE adoptions (
    tenant_id   integer PRIMARY KEY REFERENCES tenants,
    table_owner text NOT NULL,
    rights      text NOT NULL
);
ALTER TABLE adoptions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_adoptions ON adoptions USING (tenant_id = (SELECT tenant_of(current_user)));
