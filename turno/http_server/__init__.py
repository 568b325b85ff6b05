"""The web server: uvicorn's event loop waits for clients, threads run complete requests."""
