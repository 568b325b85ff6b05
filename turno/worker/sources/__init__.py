"""Where a supervisor's work comes from: claims by polling, a launched job, or a broker's messages."""
