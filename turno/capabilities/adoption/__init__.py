"""Turno beside an application that was in the database before: its schemas, its roles, and the removal of Turno."""
