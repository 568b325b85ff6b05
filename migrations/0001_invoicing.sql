-- The example's business: orders become invoices. These tables are independent of jobs.

CREATE TABLE customers (
    id            text PRIMARY KEY CHECK (id <> ''),
    company_name  text NOT NULL,
    tax_condition text NOT NULL CHECK (tax_condition IN ('registered', 'monotributo', 'exempt', 'final_consumer')),
    address       text,
    city          text,
    country       text NOT NULL
);

CREATE TABLE products (
    id         integer PRIMARY KEY,
    name       text NOT NULL,
    unit_price numeric(18, 4) NOT NULL CHECK (unit_price >= 0),
    iva_rate   numeric(5, 2) NOT NULL CHECK (iva_rate IN (0.00, 10.50, 21.00, 27.00))
);

CREATE TABLE orders (
    id          bigint PRIMARY KEY,
    customer_id text NOT NULL REFERENCES customers,
    ordered_on  date NOT NULL,
    currency    text NOT NULL DEFAULT 'ARS' CHECK (currency ~ '^[A-Z]{3}$')
);

CREATE TABLE order_lines (
    order_id   bigint NOT NULL REFERENCES orders,
    line_no    integer NOT NULL CHECK (line_no >= 1),
    product_id integer NOT NULL REFERENCES products,
    quantity   integer NOT NULL CHECK (quantity > 0),
    unit_price numeric(18, 4) NOT NULL CHECK (unit_price >= 0),
    discount   numeric(5, 4) NOT NULL DEFAULT 0 CHECK (discount BETWEEN 0 AND 1),
    PRIMARY KEY (order_id, line_no)
);
COMMENT ON COLUMN order_lines.unit_price IS 'The price agreed for this order, which the product''s own price need not match.';
COMMENT ON COLUMN order_lines.discount IS 'A fraction of the line''s price: 0.15 takes 15 % off.';

CREATE TABLE points_of_sale (
    id               integer PRIMARY KEY CHECK (id BETWEEN 1 AND 99999),
    issuer_condition text NOT NULL CHECK (issuer_condition IN ('registered', 'monotributo'))
);
COMMENT ON TABLE points_of_sale IS 'A transaction that numbers an invoice locks the row of its point of sale first, so two runs never deadlock over letters.';

CREATE TABLE invoice_counters (
    point_of_sale integer NOT NULL REFERENCES points_of_sale,
    letter        text NOT NULL CHECK (letter IN ('A', 'B', 'C')),
    last_number   integer NOT NULL CHECK (last_number BETWEEN 1 AND 99999999),
    PRIMARY KEY (point_of_sale, letter)
);
COMMENT ON TABLE invoice_counters IS 'A table instead of a sequence: a sequence loses the numbers of rolled back invoices, and the law allows no gap.';

CREATE TABLE invoices (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id      bigint NOT NULL UNIQUE REFERENCES orders,
    point_of_sale integer NOT NULL REFERENCES points_of_sale,
    letter        text NOT NULL CHECK (letter IN ('A', 'B', 'C')),
    number        integer NOT NULL CHECK (number BETWEEN 1 AND 99999999),
    customer_id   text NOT NULL REFERENCES customers,
    -- clock_timestamp() instead of now(): numbers are assigned under a lock, so dates rise with them, also if the transaction
    -- began on an earlier day. The time zone does not depend on the session.
    issued_on     date NOT NULL DEFAULT (clock_timestamp() AT TIME ZONE 'America/Argentina/Buenos_Aires')::date,
    net_total     numeric(18, 2) NOT NULL CHECK (net_total >= 0),
    iva_total     numeric(18, 2) NOT NULL CHECK (iva_total >= 0),
    total         numeric(18, 2) NOT NULL,
    currency      text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    UNIQUE (point_of_sale, letter, number),
    CONSTRAINT invoices_total_is_net_plus_iva CHECK (total = net_total + iva_total),
    CONSTRAINT invoices_c_shows_no_iva CHECK (letter <> 'C' OR iva_total = 0)
);

-- The invoicing code rounds amounts; these checks refuse a line with a different result. The factor 0.01 replaces a division
-- by 100, which would round to fewer digits first.
CREATE TABLE invoice_lines (
    invoice_id bigint NOT NULL REFERENCES invoices,
    line_no    integer NOT NULL CHECK (line_no >= 1),
    product_id integer NOT NULL REFERENCES products,
    quantity   integer NOT NULL CHECK (quantity > 0),
    unit_price numeric(18, 4) NOT NULL CHECK (unit_price >= 0),
    discount   numeric(5, 4) NOT NULL CHECK (discount BETWEEN 0 AND 1),
    net        numeric(18, 2) NOT NULL,
    iva_rate   numeric(5, 2) NOT NULL CHECK (iva_rate IN (0.00, 10.50, 21.00, 27.00)),
    iva        numeric(18, 2) NOT NULL,
    PRIMARY KEY (invoice_id, line_no),
    CONSTRAINT invoice_lines_net_to_the_cent CHECK (net = round(unit_price * quantity * (1 - discount), 2)),
    CONSTRAINT invoice_lines_iva_to_the_cent CHECK (iva = round(net * iva_rate * 0.01, 2))
);
COMMENT ON COLUMN invoice_lines.iva_rate IS 'The charged rate: 0 under letter C, independent of the product''s rate.';

CREATE VIEW billable_orders AS
SELECT o.id AS order_id, o.ordered_on, o.customer_id, c.company_name, o.currency, l.line_count, l.net_amount
FROM orders o
JOIN customers c ON c.id = o.customer_id
-- LATERAL: a page of a few orders sums the lines of these orders only.
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS line_count,
           -- Without a precision: a sum of any size can be shown.
           coalesce(sum(round(unit_price * quantity * (1 - discount), 2)), 0.00) AS net_amount
    FROM order_lines
    WHERE order_id = o.id
) l
WHERE NOT EXISTS (SELECT FROM invoices i WHERE i.order_id = o.id);
COMMENT ON VIEW billable_orders IS 'Orders without an invoice, also orders without lines: a clerk sees the reason for the missing invoice.';

CREATE VIEW invoice_totals AS
SELECT letter, currency, count(*)::integer AS invoices,
       sum(net_total) AS net_total,
       sum(iva_total) AS iva_total,
       sum(total) AS total
FROM invoices
GROUP BY letter, currency;

-- A clerk selects the issuer of invoice numbers on the tenant's page.
CREATE VIEW invoicing_points AS
SELECT id AS point_of_sale, issuer_condition FROM points_of_sale;
COMMENT ON VIEW invoicing_points IS 'The points of sale that may number an invoice.';
