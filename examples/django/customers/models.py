"""The tenants, in the schema public."""

from django.db import models
from django_tenants.models import DomainMixin, TenantMixin


class Customer(TenantMixin):
    name = models.TextField()


class Domain(DomainMixin):
    pass
