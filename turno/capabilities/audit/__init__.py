"""The audit: a record of each change by an operator."""
