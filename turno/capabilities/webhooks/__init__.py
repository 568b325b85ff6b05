"""Webhooks and mails of ended jobs: signed, delivered at least once, by maintenance."""
