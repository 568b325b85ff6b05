"""Render the matrix as docs/roles.md: `python -m tests.roles_page > docs/roles.md`."""

import sys
from collections.abc import Iterable, Iterator, Mapping

from turno.tenancy.rights.grants import CONTROL, TENANT
from turno.tenancy.rights.matrix import Kind, Matrix, Rights, Role

INTRODUCTION = """\
# Roles and rights

Rendered from `turno/tenancy/rights/grants.py` by `python -m tests.roles_page`; a test keeps the two in step, and
`turno db check` holds the live catalog to it. All other rights are revoked from PUBLIC and from all roles.

All names carry the installation's id (`turno_<id>_…`), because roles belong to the whole cluster; the keys of
tenants and companies are random, because each login can read the names of roles and schemas. The name of a tenant's function
ends with the tenant's key: `job_end_<t>()`.

| role | logs in | is |
|---|---|---|
| control | no | owns the schema `turno` and its functions |
| owner `o_<t>` | no | owns one tenant's schema, tables and functions, which run as it; a member of the group below \
and of the role `r_<t>`, so that a rescue may end a dead attempt's session |
| owners | no | the group of all `o_<t>`; on tickets and outcomes, row-level security shows each its own rows only |
| host | no | the group of the roles that were in the database before Turno: it has the former rights of PUBLIC, \
and enqueues for every tenant |
| handlers | no | the group of all `r_<t>` where look-up schemas are shared: it may read these schemas |
| readers `p_<t>` | no | the group of the `r_<t>` of a tenant's children, which reads its business tables; only of a parent |
| handler `r_<t>` | yes | one tenant's jobs at work; a member of nothing but the two groups above, owns nothing |
| api `a_<t>` | no | the role of the web during one request, by `SET LOCAL ROLE` |
| report `c_<company>` | yes | a consolidated report's reading: the business tables of one company's branches; \
no function, no write; a member of nothing |
| engine | yes | claims, rescues, sweeps; no right on any table |
| web | yes, inherits nothing | may become every `a_<t>`; inserts jobs of every tenant; reads the directory and the settings |
| operator | yes | reads counts, never payloads, for `/admin` and `turno` |

S is SELECT, I INSERT, U UPDATE, D DELETE, E EXECUTE, u USAGE.
"""

ADOPTED = """\
## An adopted schema of the application

Its owner, its objects and the rights of the application's roles stay unchanged. Turno's roles have these rights there,
by the rights of `turno schema adopt` ([Existing schemas](mounting.md#existing-schemas)):

| | handler, `read` | handler, `write` | handler, listed | report, and readers of a parent |
|---|---|---|---|---|
| the schema | u | u | u | u |
| tables, now and later made by its owner | S | SIUD | of listed tables: S or SIUD, none later | S where the handler has it |
| views and partitioned tables within the schema | S | S, tables SIUD | as tables | S where the handler has it |
| views, tables and foreign tables that read elsewhere | | | as tables | S where the handler has it |
| sequences | | u | u of listed tables with SIUD | |

In a schema of `turno schema share`, the group of handlers has S on every table and view, now and later.
"""

AROUND = """\
## Around them

Revoked from PUBLIC, and kept by the earlier roles (`host`): CONNECT and TEMP on the database, everything on the schema
`public`, all advisory-lock functions (the owners and control keep the locks of quotas and migrations), the functions
that make large objects, and the functions that write messages into the write-ahead log. A handler's and a report's
session has a bound of temporary files.
Each login has CONNECT by name. PUBLIC has no right on later objects of an owner (default privileges).

Always permitted, and limited to the role itself: a login may change its own password and its own defaults (startup
options override the defaults; `turno tenant reset-login` restores both), end its own sessions, and use LISTEN and
NOTIFY. A handler's password also opens the cluster's further databases as far as their PUBLIC may connect: keep `r_*`
and `c_*` to this database in pg_hba.conf if the cluster is shared. Names, sizes and row counts can be read by every login.
"""

LETTERS = {"SELECT": "S", "INSERT": "I", "UPDATE": "U", "DELETE": "D", "EXECUTE": "E", "USAGE": "u"}
OTHERS = {
    Kind.TABLE: "every other table",
    Kind.PRIVATE: "every other table named `private_…`",
    Kind.VIEW: "every other view",
    Kind.SEQUENCE: "every other sequence",
}


def render() -> str:
    """Return the page."""
    return "\n".join(
        [
            INTRODUCTION,
            "## The control schema `turno`\n",
            *_table(CONTROL, [Role.OWNERS, Role.ENGINE, Role.WEB, Role.OPERATOR, Role.HOST]),
            "",
            "## A tenant's schema `t_<t>`\n",
            *_table(TENANT, [Role.HANDLER, Role.API, Role.REPORT, Role.READERS, Role.ENGINE, Role.WEB, Role.CONTROL]),
            "",
            ADOPTED,
            AROUND,
        ]
    )


def _table(matrix: Matrix, roles: list[Role]) -> Iterator[str]:
    yield "| | " + " | ".join(roles) + " |"
    yield "|---" * (len(roles) + 1) + "|"
    for name, rights in _rows(matrix):
        yield f"| {name} | " + " | ".join(_letters(rights.get(role, ())) for role in roles) + " |"


def _rows(matrix: Matrix) -> Iterator[tuple[str, Rights]]:
    yield "the schema", dict.fromkeys(matrix.usage, frozenset({"USAGE"}))
    for name, roles in matrix.functions.items():
        yield f"`{name}()`", dict.fromkeys(roles, frozenset({"EXECUTE"}))
    yield "every other function", {}
    for name, rights in matrix.relations.items():
        yield f"`{name}`", rights
    yield from _column_rows(matrix.columns)
    for kind, other in OTHERS.items():
        yield other, matrix.others.get(kind, {})


def _column_rows(columns: Mapping[tuple[str, str], Rights]) -> Iterator[tuple[str, Rights]]:
    for (table, column), rights in columns.items():
        yield f"`{table}.{column}`", rights


def _letters(privileges: Iterable[str]) -> str:
    return "".join(LETTERS[word] for word in LETTERS if word in frozenset(privileges))


if __name__ == "__main__":
    sys.stdout.write(render())
