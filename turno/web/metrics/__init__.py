"""The numbers of an installation as a monitoring system reads them."""
