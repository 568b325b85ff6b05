"""The mail at the end of a job, in the language of its user, without data of the job."""

from collections.abc import Callable
from datetime import UTC
from smtplib import SMTPRecipientsRefused
from urllib.parse import quote

from turno.capabilities.webhooks.due import Delivery
from turno.capabilities.webhooks.post import NeverTaken
from turno.capabilities.webhooks.url import MAILTO
from turno.mail import Mail, MailServer

WORDS = {
    "en": {
        "completed": "{title}: done",
        "completed_with_failures": "{title}: done, some failed",
        "nothing_done": "{title}: not done, all failed",
        "failed": "{title}: it failed",
        "cancelled": "{title}: it was cancelled",
        "text": "Your job in {tenant} ended at {moment} UTC.",
        "link": "What it did: {link}",
        "why": "You get this mail because you asked for it when you submitted the job.",
    },
    "es": {
        "completed": "{title}: listo",
        "completed_with_failures": "{title}: listo, algunos con error",
        "nothing_done": "{title}: sin hacer, todos con error",
        "failed": "{title}: falló",
        "cancelled": "{title}: se canceló",
        "text": "Tu trabajo en {tenant} terminó el {moment} UTC.",
        "link": "Qué se hizo: {link}",
        "why": "Recibís este correo porque lo pediste al enviar el trabajo.",
    },
}
REFUSED_FOR_GOOD = 500  # the lowest code of a permanent refusal

Title = Callable[[str, str], str]  # of a job type in a language


def mail_of(delivery: Delivery, *, title: Title, public_url: str) -> Mail:
    """Return the mail of a job's end, with a link to the job if there is a `public_url`."""
    language = delivery.language or "en"
    words = WORDS[language]
    lines = [words["text"].format(tenant=delivery.slug, moment=f"{delivery.ended_at.astimezone(UTC):%Y-%m-%d %H:%M}")]
    if public_url:
        link = f"{public_url}/jobs/{delivery.job_id}?branch={quote(delivery.slug)}&lang={language}"
        lines.append(words["link"].format(link=link))
    subject = words[delivery.outcome].format(title=title(delivery.type, language))
    return Mail(subject, "\n\n".join([*lines, words["why"]]) + "\n", id=str(delivery.job_id))


def send(server: MailServer, mail: Mail, url: str) -> None:
    """Pass the mail to the server; raises NeverTaken if it refuses the recipient permanently, or as smtplib does."""
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
