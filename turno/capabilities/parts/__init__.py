"""Jobs that are split into parts: `job.fan_out`."""
