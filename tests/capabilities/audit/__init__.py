"""Tests of the capability `audit`."""
