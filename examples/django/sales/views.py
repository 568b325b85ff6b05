"""An invoice and the job that computes its tax commit together, or roll back together."""

from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST

import turno
from sales.models import Invoice


@require_POST
def add_invoice(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        invoice = Invoice.objects.create(total=request.POST["total"])
        user = request.user.get_username() or None
        job = turno.enqueue(connection, connection.schema_name, "compute_tax", invoice=invoice.pk, user=user)
    return JsonResponse({"job": job.job_id})
