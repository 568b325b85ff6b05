"""The Northwind orders, shared out among three branches."""
