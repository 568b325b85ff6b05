-- A branch's credentials for the tax authority, its authorisations, and the begin of an outage of the authority.

-- Only handlers may read tables named private_…; pages and reports may not.
CREATE TABLE private_tax_authority_access (
    only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    cuit        text NOT NULL CHECK (cuit ~ '^[0-9]{11}$'),
    certificate text NOT NULL,
    key         text NOT NULL,
    expires_at  timestamptz NOT NULL
);
COMMENT ON TABLE private_tax_authority_access IS 'Written by `turno tax-authority certificate`, which checks that the parts belong together.';

CREATE TABLE private_tax_authority_tickets (
    service    text PRIMARY KEY,
    token      text,
    sign       text,
    expires_at timestamptz,
    CHECK (num_nulls(token, sign, expires_at) IN (0, 3))
);
COMMENT ON TABLE private_tax_authority_tickets IS 'A login to the authority locks the row: the authority issues no second ticket while the first is valid.';

CREATE TABLE tax_authority_outages (
    service      text PRIMARY KEY,
    failures     integer NOT NULL CHECK (failures >= 1),
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    ask_again_at timestamptz NOT NULL
);
COMMENT ON TABLE tax_authority_outages IS 'While a row exists, jobs wait without a request to the authority. A table, because workers and children share no memory.';

ALTER TABLE customers ADD COLUMN tax_id text CHECK (tax_id ~ '^([0-9]{7,8}|[0-9]{11})$');
COMMENT ON COLUMN customers.tax_id IS 'A CUIT of eleven digits, or a DNI of seven or eight.';

ALTER TABLE invoices
    ADD COLUMN cae            text UNIQUE CHECK (cae ~ '^[0-9]{14}$'),
    ADD COLUMN cae_expires_on date,
    ADD COLUMN authorised_at  timestamptz,
    ADD CONSTRAINT invoices_authorised_whole CHECK (num_nulls(cae, cae_expires_on, authorised_at) IN (0, 3));
COMMENT ON COLUMN invoices.cae IS 'What the tax authority has granted this very number; null until it has.';

CREATE VIEW invoice_authorisations AS
SELECT i.id AS invoice_id, i.kind, i.letter, i.point_of_sale, i.number, i.issued_on, c.company_name, i.currency, i.total,
       i.cae, i.cae_expires_on, i.authorised_at
FROM invoices i
JOIN customers c ON c.id = i.customer_id;
COMMENT ON VIEW invoice_authorisations IS 'Invoices and credit notes with their authorisation by the tax authority, or null.';
