"""Schedules: jobs at the moments of a recurrence rule, of one tenant or, by a template, of every tenant."""
