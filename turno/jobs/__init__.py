"""Values and rules of jobs, without input or output; the time is a parameter."""
