-- The tenant's page lets a clerk choose who numbers the invoices.
CREATE VIEW invoicing_points AS
SELECT id AS point_of_sale, issuer_condition FROM points_of_sale;
COMMENT ON VIEW invoicing_points IS 'The points of sale that may number an invoice, for whoever asks for one.';
