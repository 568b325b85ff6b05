"""The link between a branch's invoices and the tax authority: access, tickets, outages, vouchers. Knows no jobs."""
