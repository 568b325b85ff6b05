"""When schedules fire."""
