"""Where a supervisor's work comes from: claims by polling, a launched job, or the source of a capability."""
