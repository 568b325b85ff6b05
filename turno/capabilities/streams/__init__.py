"""Jobs and notifications as server-sent events; without them pages and clients poll."""
