"""Output of commands: tables, bars, errors."""
