"""Tickets of streams; the streams themselves are tested in tests/integration/streaming."""
