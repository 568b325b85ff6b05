"""Start things: the only room that knows every other."""
