"""Schedules: jobs of one tenant at the moments of a recurrence rule."""
