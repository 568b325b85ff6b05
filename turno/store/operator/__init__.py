"""SQL of those who operate an installation: backends, caps, weights, pauses."""
