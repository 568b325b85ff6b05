DROP VIEW invoicing_points, invoice_totals, billable_orders;
DROP TABLE invoice_lines, invoices, invoice_counters, points_of_sale, order_lines, orders, products, customers;
