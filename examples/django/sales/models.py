"""The tables of each tenant."""

from django.db import models


class Invoice(models.Model):
    total = models.DecimalField(max_digits=12, decimal_places=2)
    tax = models.DecimalField(max_digits=12, decimal_places=2, null=True)
