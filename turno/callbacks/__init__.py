"""Telling an address outside that a job has ended: signed, at least once, by maintenance."""
