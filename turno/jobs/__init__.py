"""Values and rules of jobs: no input, no output, no clock but one that is passed in."""
