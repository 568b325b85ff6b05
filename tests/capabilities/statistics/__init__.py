"""Tests of the capability `statistics`."""
