"""When a schedule's moments are, and which of them are due: values and rules, no I/O."""
