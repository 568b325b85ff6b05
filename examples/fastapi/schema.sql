CREATE SCHEMA suc0001;
CREATE SCHEMA suc0002;
CREATE TABLE suc0001.invoices (id serial PRIMARY KEY, total numeric NOT NULL, tax numeric);
CREATE TABLE suc0002.invoices (id serial PRIMARY KEY, total numeric NOT NULL, tax numeric);
