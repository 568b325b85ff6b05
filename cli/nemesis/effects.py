"""What the nemesis' handlers leave in business tables, and the rules that find it doubled, missing or of nobody."""

from __future__ import annotations

from typing import LiteralString

# A business write made in the transaction of its record: which job did which piece, under which token. Any column but
# a key, so that a doubled effect is kept for the judge to see.
EFFECT: LiteralString = """
INSERT INTO customers (id, company_name, tax_condition, address, city, country)
VALUES (gen_random_uuid()::text, %s, 'exempt', %s, %s, 'effect')
"""
THE_END = "the end"  # the piece that is done together with job_complete

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
        FULL JOIN (SELECT job_id, key FROM background_job_items WHERE state = 'done') AS i
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
            WHERE a.job_id = j.id AND a.token::text = c.city AND (c.address <> 'the end' OR a.outcome = 'completed'))
    """,
}
