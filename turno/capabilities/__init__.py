"""One folder for each capability; the core reads its `capability.py` and imports nothing of it."""
