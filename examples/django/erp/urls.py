from django.contrib import admin
from django.urls import path
from sales.views import add_invoice

from turno.contrib.django.pages import turno_pages

urlpatterns = [
    path("invoices/", add_invoice),
    path("admin/", admin.site.urls),
    path("jobs/", turno_pages()),
]
