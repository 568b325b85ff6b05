"""Read the changes by operators, with the operator's login."""

from datetime import datetime

from turno.store.operator.counts import Companies, Operator, Row, rows


def list_audit(
    operator: Operator,
    *,
    companies: Companies = None,
    actor: str | None = None,
    tenant: str | None = None,
    action: str | None = None,
    since: datetime | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Row]:
    """Return a page of the audit, newest first.

    Each row has id, at, actor, login, action, tenant, subject, jobs, detail and correlation_id. With `companies` only
    changes of their tenants; `before` is the last id of the previous page.
    """
    return rows(
        operator,
        """
        SELECT a.id, a.at, a.actor, a.login, a.action, n.slug AS tenant, a.subject, a.jobs, a.detail, a.correlation_id
        FROM operator_audit a LEFT JOIN tenants n ON n.id = a.tenant_id LEFT JOIN companies c ON c.id = n.company_id
        WHERE (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s::text[]))
          AND (%(actor)s::text IS NULL OR a.actor = %(actor)s)
          AND (%(tenant)s::text IS NULL OR n.slug = %(tenant)s)
          AND (%(action)s::text IS NULL OR a.action = %(action)s)
          AND (%(since)s::timestamptz IS NULL OR a.at >= %(since)s)
          AND (%(before)s::bigint IS NULL OR a.id < %(before)s)
        ORDER BY a.id DESC LIMIT %(limit)s
        """,
        companies,
        actor=actor,
        tenant=tenant,
        action=action,
        since=since,
        before=before,
        limit=limit,
    )
