-- Returns: an order line of negative quantity becomes a line of a credit note with a separate number.

ALTER TABLE order_lines DROP CONSTRAINT order_lines_quantity_check,
    ADD CONSTRAINT order_lines_quantity_check CHECK (quantity <> 0);
COMMENT ON COLUMN order_lines.quantity IS 'Negative: taken back. The amounts of the credit note that it becomes are positive.';

ALTER TABLE invoices ADD COLUMN kind text NOT NULL DEFAULT 'invoice' CHECK (kind IN ('invoice', 'credit_note'));
COMMENT ON COLUMN invoices.kind IS 'A credit note takes its amounts off; the law numbers it apart from invoices, by letter.';
ALTER TABLE invoices DROP CONSTRAINT invoices_order_id_key,
    ADD CONSTRAINT invoices_order_id_key UNIQUE (order_id, kind),
    DROP CONSTRAINT invoices_point_of_sale_letter_number_key,
    ADD CONSTRAINT invoices_point_of_sale_kind_letter_number_key UNIQUE (point_of_sale, kind, letter, number);

ALTER TABLE invoice_counters ADD COLUMN kind text NOT NULL DEFAULT 'invoice' CHECK (kind IN ('invoice', 'credit_note'));
ALTER TABLE invoice_counters DROP CONSTRAINT invoice_counters_pkey,
    ADD CONSTRAINT invoice_counters_pkey PRIMARY KEY (point_of_sale, kind, letter);

CREATE OR REPLACE VIEW invoice_totals AS
SELECT letter, currency, count(*)::integer AS invoices,
       sum(net_total) AS net_total,
       sum(iva_total) AS iva_total,
       sum(total) AS total
FROM invoices
WHERE kind = 'invoice'
GROUP BY letter, currency;

CREATE VIEW credit_note_totals AS
SELECT letter, currency, count(*)::integer AS credit_notes,
       sum(net_total) AS net_total,
       sum(iva_total) AS iva_total,
       sum(total) AS total
FROM invoices
WHERE kind = 'credit_note'
GROUP BY letter, currency;
COMMENT ON VIEW credit_note_totals IS 'What was taken off, in positive amounts.';
