"""Customers, products and orders from files that people made: read with care, refused with a reason."""
