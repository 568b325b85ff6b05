"""Values and rules of jobs: no input, no output, no clock but the one handed in."""
