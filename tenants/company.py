"""The company, its branches, and who works in which."""

COMPANY = "northwind"
NAME = "Northwind Traders"
BRANCHES = ("suc0001", "suc0002", "suc0003")
# Each user with the branches that a token of theirs opens.
USERS = {"ana": BRANCHES}
