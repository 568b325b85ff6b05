"""Remove each guard in turn and see its test fail: a promise is unproved if its test passes without its guard."""
