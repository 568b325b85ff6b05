"""A small ERP, one schema per branch: each sale enqueues its month's report in the same transaction."""

import os
from typing import Any

import psycopg
from flask import Flask, abort, request
from psycopg import sql

import turno

BRANCHES = ("suc0001", "suc0002")


def connect() -> psycopg.Connection[Any]:
    return psycopg.connect(os.environ["ERP_DATABASE_URL"])


def create_app() -> Flask:
    app = Flask(__name__)

    @app.post("/<branch>/sales")
    def sell(branch: str) -> dict[str, Any]:
        if branch not in BRANCHES:
            abort(404)
        month, total = request.json["month"], request.json["total"]
        with connect() as connection:  # commits at its end
            table = sql.Identifier(branch, "sales")
            connection.execute(sql.SQL("INSERT INTO {} (month, total) VALUES (%s, %s)").format(table), [month, total])
            job = turno.enqueue(connection, branch, "monthly_report", month=month)
        return {"job": str(job.job_id)}

    @app.get("/<branch>/reports/<month>")
    def report(branch: str, month: str) -> dict[str, Any]:
        if branch not in BRANCHES:
            abort(404)
        with connect() as connection:
            table = sql.Identifier(branch, "reports")
            row = connection.execute(sql.SQL("SELECT total FROM {} WHERE month = %s").format(table), [month]).fetchone()
        return {"total": str(row[0])} if row else abort(404)

    return app
