"""Whether a user may be mailed at a job's end, and where: at the address that is proven to be theirs, and no other."""

from turno.jobs.callback_url import MAILTO
from turno.web.auth.principal import Principal
from turno.web.services import services


def mail_url(principal: Principal) -> str | None:
    """Return what stands for a user's address among those that are told; None where no mail can be sent.

    The token, or the application, vouches for it, so that nobody makes this service write to others.
    """
    # The web is handed no ALERT_SMTP_URL, which has a password: what maintains the installation sends.
    able = services().settings.alert_email_from and services().inline is None
    return f"{MAILTO}{principal.email}" if able and principal.email is not None else None


def why_not(principal: Principal) -> str:
    """Return why there is no mail."""
    if principal.email is None:
        return "cannot be kept: your token names no verified address, as its claim email"
    if services().inline is not None:
        return "cannot be kept while background jobs are switched off"
    return "cannot be kept here: ALERT_EMAIL_FROM names no sender of mails"
