"""Live streams: who watches what, and what each is sent."""
