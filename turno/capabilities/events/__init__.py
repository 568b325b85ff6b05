"""Events: facts of the business; each subscribed job type gets a job."""
