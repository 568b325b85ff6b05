"""Alerts: messages when a trouble begins, while it lasts, and when it is over."""
