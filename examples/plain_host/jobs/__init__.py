"""The handlers."""

from jobs.monthly_report import MonthlyReport

HANDLERS = [MonthlyReport]
