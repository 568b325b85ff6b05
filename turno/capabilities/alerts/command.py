"""The commands `turno alert …`."""

import click

from turno.commands.failures import printable
from turno.commands.output import print_message, print_table, show, wants_json
from turno.environment import RESIDENTS_NEED, read_settings, seal
from turno.jobs.label import counted
from turno.jobs.moment import written


@click.group()
def alerts() -> None:
    """List raised alerts; send a test to each receiver."""


@alerts.command("list", epilog="Example: turno alert list --json")
def list_alerts() -> None:
    """List the raised alerts and the undelivered messages."""
    from turno.capabilities.alerts.stored import pending, raised  # noqa: PLC0415 - no driver for --help
    from turno.wiring.logins import operator_session  # noqa: PLC0415

    with operator_session(read_settings()) as operator:
        open_alerts, waiting = raised(operator), pending(operator)
    if wants_json():
        show({"alerts": open_alerts, "pending": waiting})
        return
    if not open_alerts:
        click.echo("no alert is raised")
    else:
        rows = [
            (alert["raised_at"], alert["tenant"] or "", alert["sentence"], alert["command"]) for alert in open_alerts
        ]
        print_table(("since", "tenant", "what", "run"), rows)
    for alert in waiting:
        when = f", the next try is at {written(alert['next_at'])}" if alert["next_at"] else ""
        messages = f"{counted(alert['events'], 'message')} {'waits' if alert['events'] == 1 else 'wait'}"
        click.echo(f"{messages} for {alert['receiver']} after {counted(alert['tries'], 'attempt')}{when}")


@alerts.command("test", epilog="Example: turno alert test")
def test_alerts() -> int:
    """Send a test to every receiver of the settings and print its answer. Exit status 1 after an error."""
    seal(*RESIDENTS_NEED)
    from turno.capabilities.alerts.receivers import test_message  # noqa: PLC0415 - not twice, if it must begin anew
    from turno.capabilities.alerts.rounds import alerts as alerts_of  # noqa: PLC0415

    answers = alerts_of(read_settings()).send_now(test_message())
    for name, error in sorted(answers.items()):
        print_message(f"{name}: {'sent' if error is None else printable(error)}")
    if set(answers) == {"log"}:
        print_message("only the log receives alerts: set TURNO_ALERT_TO")
    return int(any(answers.values()))
