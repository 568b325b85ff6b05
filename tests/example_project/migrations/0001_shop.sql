CREATE TABLE customers (
    id            text PRIMARY KEY CHECK (id <> ''),
    company_name  text NOT NULL,
    tax_condition text NOT NULL,
    address       text,
    country       text NOT NULL
);

CREATE TABLE products (
    id         integer PRIMARY KEY,
    name       text NOT NULL,
    unit_price numeric(18, 4) NOT NULL CHECK (unit_price >= 0),
    iva_rate   numeric(5, 2) NOT NULL
);
