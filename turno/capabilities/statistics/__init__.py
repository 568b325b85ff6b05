"""Statistics: charts, totals and metrics of the outcomes of jobs."""
