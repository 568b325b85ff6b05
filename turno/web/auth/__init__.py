"""Who is asking, for which tenant, and from which site."""
