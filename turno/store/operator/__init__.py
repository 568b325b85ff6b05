"""SQL of the operator: backends, caps, weights, pauses."""
