"""A tax authority on this machine, for the demo and the tests: it authorises in memory, and fails on request.

It speaks the interfaces that the real one publishes and knows nothing of this application.
"""
