"""Holding the live catalog to the design."""
