"""Tests of the capability `pages`."""
