"""Faulty behaviour of the tests' handlers, by topic."""
