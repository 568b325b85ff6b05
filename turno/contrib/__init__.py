"""Adapters for frameworks of applications."""
