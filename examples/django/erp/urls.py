from django.urls import path
from sales.views import add_invoice

urlpatterns = [path("invoices/", add_invoice)]
