-- The schema before Turno: a schema for each branch, with the application's tables.
CREATE SCHEMA suc0001;
CREATE TABLE suc0001.sales (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, month text NOT NULL, total numeric NOT NULL);
CREATE TABLE suc0001.reports (month text PRIMARY KEY, total numeric NOT NULL);
CREATE SCHEMA suc0002;
CREATE TABLE suc0002.sales (LIKE suc0001.sales INCLUDING ALL);
CREATE TABLE suc0002.reports (LIKE suc0001.reports INCLUDING ALL);
