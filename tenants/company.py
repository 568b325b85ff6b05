"""The company, its branches, and their users."""

COMPANY = "northwind"
NAME = "Northwind Traders"
BRANCHES = ("suc0001", "suc0002", "suc0003")
# Each branch's CUIT for the tax authority's stub.
CUITS = dict(zip(BRANCHES, ("30712345671", "30712345689", "30712345698"), strict=True))
# Each user with the branches that a token of theirs opens.
USERS = {"ana": BRANCHES}
