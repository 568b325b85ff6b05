"""The application microblog, of which the variable MICROBLOG names a checkout: an export of posts as a job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.adopted_applications import Application, with_procrastinate, with_turno

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.adopted_applications import Adoption, Files

ROUTES = "app/main/routes.py"
SUFFIXES = {".py", ".html", ".txt", ".ini"}
HANDLER = """\
import json
from dataclasses import dataclass
from app.models import Notification, User
from turno import JobHandler
from turno.orm import orm_session

@dataclass(frozen=True)
class Posts:
    user_id: int

class ExportPosts(JobHandler[Posts]):
    type = "export_posts"

    def handle(self, job, payload):
        with orm_session(job) as session:
            user = session.get_one(User, payload.user_id)
            posts = json.dumps([post.body for post in session.scalars(user.posts.select())])
            session.add(Notification(name="export", payload_json=posts, user_id=user.id))
        return {}

HANDLERS = [ExportPosts]
"""
TASK = """\
import json, procrastinate
from procrastinate.contrib.sqlalchemy import SQLAlchemyPsycopg2Connector
from app import create_app, db
from app.models import Notification, User
web = procrastinate.App(connector=SQLAlchemyPsycopg2Connector())

@web.task(name="export_posts")
def export_posts(user_id):
    with create_app().app_context():
        user = db.session.get_one(User, user_id)
        posts = json.dumps([post.body for post in db.session.scalars(user.posts.select())])
        db.session.add(Notification(name="export", payload_json=posts, user_id=user.id))
        db.session.commit()

procrastinate_app = web.with_connector(procrastinate.PsycopgConnector())
"""
SIGN_UP = """\
from app import create_app, db
from app.models import Post, User
with create_app().app_context():
    user = User(username="ana", email="ana@example.com")
    user.set_password("secret")
    db.session.add(Post(body="the first post", author=user))
    db.session.commit()
"""
EXPORT = """\
from app import create_app
app = create_app()
app.config["WTF_CSRF_ENABLED"] = False
user = app.test_client()
user.post("/auth/login", data={"username": "ana", "password": "secret"})
assert user.get("/export_posts").location == "/user/ana"
"""


def with_each(folder: Path, wheel: str) -> tuple[Adoption, Adoption]:
    """Return the application with Turno, and with Procrastinate."""
    files = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.suffix in SUFFIXES
    }
    microblog = Application(
        # The variables of libpq name the server.
        {**files, ".env": "DATABASE_URL=postgresql://?options=-csearch_path=suc0001,public\n",
         "sign_up.py": SIGN_UP, "export.py": EXPORT},
        ("python", "export.py"),
        ("--requirement", "requirements.txt"),
        schema="CREATE SCHEMA suc0001",
        prepare=(("flask", "--app=microblog", "db", "upgrade"), ("python", "sign_up.py")),
        result="SELECT payload_json FROM suc0001.notification",
        expected='["the first post"]',
    )  # fmt: skip
    turno = _changed(
        files[ROUTES],
        imports="import turno",
        enqueue='turno.enqueue(db.session, "suc0001", "export_posts", user_id=current_user.id)',
    )
    procrastinate = _changed(
        files[ROUTES],
        imports="from app.jobs import export_posts as export",
        enqueue="export.configure(connection=db.session.connection()).defer(user_id=current_user.id)",
    )
    return (
        with_turno(microblog, f"{wheel}[sqlalchemy]", {"app/jobs.py": HANDLER, **turno}),
        with_procrastinate(microblog, {"app/jobs.py": TASK, **procrastinate}),
    )


def _changed(routes: str, *, imports: str, enqueue: str) -> Files:
    text, replaced = re.subn(r"current_user\.launch_task\(.*\)", enqueue, routes)
    if replaced != 1:
        raise ValueError("MICROBLOG names a checkout without the route that exports posts")
    return {ROUTES: text.replace("from app import db\n", f"from app import db\n{imports}\n")}
