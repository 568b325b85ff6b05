"""The mail at the end of a job, in the language of its user, without data of the job."""

from datetime import UTC
from smtplib import SMTPRecipientsRefused
from urllib.parse import quote

from turno.capabilities.webhooks.due import Delivery
from turno.capabilities.webhooks.post import NeverTaken
from turno.capabilities.webhooks.url import MAILTO
from turno.catalogue import DEFAULT, Catalogues
from turno.mail import Mail, MailServer

REFUSED_FOR_GOOD = 500  # the lowest code of a permanent refusal


def mail_of(delivery: Delivery, *, catalogues: Catalogues, public_url: str) -> Mail:
    """Return the mail of a job's end, with a link to the job if there is a `public_url`."""
    language = delivery.language or DEFAULT
    if language not in catalogues:
        language = DEFAULT
    text = catalogues[language].gettext
    ended_at = f"{delivery.ended_at.astimezone(UTC):%Y-%m-%d %H:%M}"
    lines = [text("mail ended").format(tenant=delivery.slug, moment=ended_at)]
    if public_url:
        link = f"{public_url}/jobs/{delivery.job_id}?branch={quote(delivery.slug)}&lang={language}"
        lines.append(text("mail link").format(link=link))
    phrase = f"type {delivery.type}"
    title = text(phrase) if text(phrase) != phrase else delivery.type
    subject = text(f"mail {delivery.outcome}").format(title=title)
    return Mail(subject, "\n\n".join([*lines, text("mail reason")]) + "\n", id=str(delivery.job_id))


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
