"""Bringing schemas to this release's version, or back."""
