DROP VIEW invoicing_points;
