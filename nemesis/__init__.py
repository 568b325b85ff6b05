"""`turno nemesis`: work under random faults, and an independent judgement of what is left; see docs/nemesis.md."""
