"""Figures of many branches, read in small batches of rows, and the files that hold them."""
