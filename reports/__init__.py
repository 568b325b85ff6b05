"""Figures of many branches, read a few rows at a time, and the files that hold them."""
