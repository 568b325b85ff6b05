"""`turno nemesis`: work under random faults, then an independent check of the invariants; see docs/faults.md."""
