"""The only job: a branch's report of a month."""

from dataclasses import dataclass
from typing import Any

from turno import JobContext, JobHandler


@dataclass(frozen=True, slots=True)
class MonthlyReportPayload:
    month: str


class MonthlyReport(JobHandler[MonthlyReportPayload]):
    type = "monthly_report"

    def handle(self, job: JobContext, payload: MonthlyReportPayload) -> dict[str, Any]:
        job.connection.execute(
            "INSERT INTO reports (month, total) SELECT %(month)s, sum(total) FROM sales WHERE month = %(month)s"
            " ON CONFLICT (month) DO UPDATE SET total = excluded.total",
            {"month": payload.month},
        )
        return {}
