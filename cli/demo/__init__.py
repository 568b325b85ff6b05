"""The demo: one company, three branches, 830 orders."""
