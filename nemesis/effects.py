"""Business rows of the nemesis' handlers, and queries that find doubled, missing and foreign rows."""

from __future__ import annotations

from typing import LiteralString

# A business row in the transaction of its record: job, piece and attempt. No column is unique, so that the table keeps
# a doubled effect for the check.
EFFECT: LiteralString = """
INSERT INTO customers (id, company_name, tax_condition, address, city, country)
VALUES (gen_random_uuid()::text, %s, 'exempt', %s, %s, 'effect')
"""
THE_END = "the end"  # the piece in the transaction of jobs_finish

EFFECTS: dict[str, LiteralString] = {
    "I2: an effect is doubled": """
        SELECT company_name || ' ' || address FROM customers WHERE country = 'effect'
        GROUP BY company_name, address HAVING count(*) > 1
    """,
    "I2: an item and its effect are not both there": """
        SELECT coalesce(e.job || ' ' || e.item, i.job_id || ' ' || i.key)
        FROM (SELECT c.company_name AS job, c.address AS item FROM customers c
              JOIN background_jobs j ON j.id::text = c.company_name
              WHERE c.country = 'effect' AND c.address <> 'the end') AS e
        FULL JOIN (SELECT i.job_id, i.key FROM background_job_items i JOIN background_jobs j ON j.id = i.job_id
                   WHERE i.state = 'done' AND j.type <> 'nemesis_invoicing') AS i
          ON i.job_id::text = e.job AND i.key = e.item
        WHERE e.job IS NULL OR i.key IS NULL
    """,
    "I2: an end and its effect are not both there": """
        SELECT j.id FROM background_jobs j
        WHERE (j.status = 'completed') <> EXISTS (
            SELECT FROM customers c
            WHERE c.country = 'effect' AND c.company_name = j.id::text AND c.address = 'the end')
    """,
    "I5: an effect is of no attempt": """
        SELECT c.company_name || ' ' || c.address FROM customers c JOIN background_jobs j ON j.id::text = c.company_name
        WHERE c.country = 'effect' AND NOT EXISTS (
            SELECT FROM background_job_attempts a
            WHERE a.job_id = j.id AND a.attempt::text = c.city AND (c.address <> 'the end' OR a.outcome = 'completed'))
    """,
    "I2: a step is doubled, missing or of no attempt": """
        SELECT j.id FROM background_jobs j LEFT JOIN background_job_checkpoints c ON c.job_id = j.id
        -- A retry begins after the last step of the job that it continues.
        LEFT JOIN background_job_checkpoints p ON p.job_id = j.parent_id
        CROSS JOIN LATERAL (
            SELECT coalesce(c.state::integer, 0) AS reached,
                   coalesce(c.state::integer, 0) - coalesce(p.state::integer, 0) AS own) AS wanted
        CROSS JOIN LATERAL (
            SELECT count(*) AS written, count(DISTINCT e.address) AS different, count(a.attempt) AS known
            FROM customers e LEFT JOIN background_job_attempts a ON a.job_id = j.id AND a.attempt::text = e.city
            WHERE e.country = 'step' AND e.company_name = j.id::text) AS steps
        WHERE j.type = 'nemesis_steps'
          AND ((steps.written, steps.different, steps.known) <> (wanted.own, wanted.own, wanted.own)
               OR j.status = 'completed' AND (j.payload ->> 'pieces')::integer <> wanted.reached)
    """,
    "I9: two jobs of a key were at work at once": "SELECT address FROM customers WHERE country = 'overlap'",
    "I9: more than two jobs of a key were at work at once": """
        SELECT a.job_id FROM background_job_attempts a JOIN background_jobs j ON j.id = a.job_id
        WHERE j.type = 'nemesis_pairs' AND 2 <= (
            SELECT count(*) FROM background_job_attempts b JOIN background_jobs o ON o.id = b.job_id
            WHERE o.type = j.type AND o.id <> j.id AND b.started_at <= a.started_at
              AND coalesce(b.finished_at, 'infinity') > a.started_at)
    """,
    "I9: an event was heard before an earlier one of its key": """
        SELECT address || ' ' || company_name FROM customers WHERE country = 'overtaken'
    """,
    "I11: an event was heard in order twice": """
        SELECT address || ' ' || company_name FROM customers WHERE country = 'heard'
        GROUP BY address, company_name HAVING count(*) > 1
    """,
    "I11: a publication has no event, or an event has no publication": """
        SELECT coalesce(t.address || ' ' || t.company_name, e.id::text)
        FROM (SELECT address, company_name FROM customers WHERE country = 'told') AS t
        FULL JOIN background_events e ON (e.key, e.data ->> 'number') = (t.address, t.company_name)
        WHERE t.address IS NULL OR e.id IS NULL
    """,
    "I11: an event has no job, or several jobs, of a subscriber": """
        SELECT e.id::text || ' ' || s.type
        FROM background_events e CROSS JOIN (VALUES ('nemesis_hear'), ('nemesis_in_order')) AS s (type)
        WHERE 1 <> (SELECT count(*) FROM background_jobs j
                    WHERE j.type = s.type AND j.parent_id IS NULL
                      AND (j.payload ->> 'key', j.payload ->> 'number') = (e.key, e.data ->> 'number'))
    """,
    "I11: a moment of a schedule has no job, or several jobs": """
        SELECT coalesce(r.job_id, j.id)
        FROM job_schedule_runs r
        FULL JOIN (SELECT id FROM background_jobs WHERE type = 'nemesis_tick' AND parent_id IS NULL) AS j
          ON j.id = r.job_id
        WHERE r.job_id IS NULL OR j.id IS NULL
    """,
    "I11: a schedule omitted a moment": """
        SELECT schedule_id FROM (
            SELECT schedule_id, moment - lag(moment) OVER (PARTITION BY schedule_id ORDER BY moment) AS step
            FROM job_schedule_runs) AS steps
        WHERE step <> interval '60 s'
        UNION ALL
        SELECT s.id FROM job_schedules s
        WHERE s.next_at <> (SELECT max(r.moment) + interval '60 s' FROM job_schedule_runs r WHERE r.schedule_id = s.id)
    """,
    "I10: a job has other parts than its payload requests": """
        SELECT j.id FROM background_jobs j
        CROSS JOIN LATERAL (SELECT count(*) AS made, count(DISTINCT b.part_id) AS different FROM background_job_parts b
                            WHERE b.job_id = j.id) AS parts
        WHERE j.type = 'nemesis_whole'
          AND ((parts.made, parts.different) NOT IN ((0, 0), ((j.payload ->> 'pieces')::bigint, parts.made))
               OR j.status = 'completed' AND parts.made = 0)
        UNION ALL
        SELECT j.id FROM background_jobs j
        WHERE j.type = 'nemesis_part' AND NOT EXISTS (SELECT FROM background_job_parts b WHERE b.part_id = j.id)
    """,
    "I1: a unique job exists twice": """
        SELECT payload ->> 'pieces' FROM background_jobs WHERE type = 'nemesis_once' AND parent_id IS NULL
        GROUP BY 1 HAVING count(*) > 1
        UNION ALL
        SELECT j.id::text FROM background_jobs j
        JOIN background_jobs o ON o.type = j.type AND o.id <> j.id AND o.created_at >= j.created_at
             AND o.created_at < coalesce(j.finished_at, 'infinity')
        WHERE j.type = 'nemesis_sole'
    """,
    "I3: a completed batch omitted an item": """
        SELECT j.id FROM background_jobs j
        WHERE j.status = 'completed' AND j.type IN ('nemesis_batch', 'nemesis_part', 'nemesis_invoicing')
          AND (SELECT count(*) FROM background_job_items i WHERE i.job_id = j.id)
              <> coalesce(jsonb_array_length(j.payload -> 'order_ids'), (j.payload ->> 'pieces')::integer)
    """,
    "I2: an invoice and its item are not both there": """
        SELECT coalesce(v.order_id::text, i.key)
        FROM invoices v
        FULL JOIN (SELECT i.key FROM background_job_items i JOIN background_jobs j ON j.id = i.job_id
                   WHERE i.state = 'done' AND j.type = 'nemesis_invoicing') AS i ON i.key = v.order_id::text
        WHERE v.order_id IS NULL OR i.key IS NULL
    """,
    "I2: an order was invoiced twice": "SELECT order_id FROM invoices GROUP BY order_id HAVING count(*) > 1",
    "I2: an invoice number is missing, doubled or out of sequence": """
        SELECT c.letter || ' ' || c.point_of_sale FROM invoice_counters c
        CROSS JOIN LATERAL (
            SELECT count(*) AS given, count(DISTINCT v.number) AS different, max(v.number) AS highest FROM invoices v
            WHERE v.point_of_sale = c.point_of_sale AND v.letter = c.letter) AS v
        WHERE (v.given, v.different, v.highest) IS DISTINCT FROM (c.last_number, c.last_number, c.last_number)
    """,
    "I2: an invoice is not the sum of its lines": """
        SELECT v.id FROM invoices v
        LEFT JOIN (SELECT invoice_id, sum(net) AS net, sum(iva) AS iva FROM invoice_lines GROUP BY invoice_id) AS l
          ON l.invoice_id = v.id
        WHERE (v.net_total, v.iva_total, v.total) IS DISTINCT FROM (l.net, l.iva, l.net + l.iva)
    """,
}
