"""Tests of the capability `admin`."""
