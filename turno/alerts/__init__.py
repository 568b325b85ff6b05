"""Tell people what is wrong: once, again while it lasts, and when it is over."""
