"""The mail that tells a user of a job's end: in their language, and with nothing that the job stored."""

from collections.abc import Callable
from datetime import UTC
from smtplib import SMTPRecipientsRefused
from urllib.parse import quote

from turno.callbacks.post import NeverTaken
from turno.jobs.callback_url import MAILTO
from turno.mail import Mail, MailServer
from turno.store.engine.callbacks import DueCallback, EndedJob

WORDS = {
    "en": {
        "completed": "{title}: done",
        "failed": "{title}: it failed",
        "cancelled": "{title}: it was cancelled",
        "text": "Your job in {tenant} ended at {moment} UTC.",
        "link": "What it did: {link}",
        "why": "You get this mail because you asked for it when you submitted the job.",
    },
    "es": {
        "completed": "{title}: listo",
        "failed": "{title}: falló",
        "cancelled": "{title}: se canceló",
        "text": "Tu trabajo en {tenant} terminó el {moment} UTC.",
        "link": "Qué se hizo: {link}",
        "why": "Recibís este correo porque lo pediste al enviar el trabajo.",
    },
}
REFUSED_FOR_GOOD = 500  # from which code on a server says that to try again is of no use

Title = Callable[[str, str], str]  # of a job type in a language


def mail_of(callback: DueCallback, job: EndedJob, *, title: Title, public_url: str) -> Mail:
    """Return the mail; without a `public_url` it leads nowhere."""
    assert job.finished_at is not None  # noqa: S101 - of an ended job
    language = callback.language or "en"
    words = WORDS[language]
    lines = [words["text"].format(tenant=callback.slug, moment=f"{job.finished_at.astimezone(UTC):%Y-%m-%d %H:%M}")]
    if public_url:
        link = f"{public_url}/jobs/{callback.job_id}?branch={quote(callback.slug)}&lang={language}"
        lines.append(words["link"].format(link=link))
    subject = words[job.status].format(title=title(job.type, language))
    return Mail(subject, "\n\n".join([*lines, words["why"]]) + "\n", id=str(callback.job_id))


def send(server: MailServer, mail: Mail, url: str) -> None:
    """Hand it over; raises NeverTaken where the server has no such recipient, and what smtplib does otherwise."""
    recipient = url.removeprefix(MAILTO)
    try:
        server.send(mail, [recipient])
    except SMTPRecipientsRefused as error:
        ((code, said),) = error.recipients.values()
        if code >= REFUSED_FOR_GOOD:
            raise NeverTaken(
                f"the server refuses the recipient: {code} {said.decode(errors='replace')[:200]}"
            ) from None
        raise
