"""The command `turno tax-authority-stub`."""

from __future__ import annotations

import signal
from threading import Event

import click


@click.command("tax-authority-stub")
@click.option("--port", type=click.IntRange(1, 65535), default=8099, show_default=True, help="Port on loopback.")
def tax_authority_stub(*, port: int) -> None:
    """Simulate the tax authority (AFIP) on this machine, until Ctrl-C or SIGTERM.

    It implements the login, the authorisation of vouchers and the registry of taxpayers, keeps everything in memory,
    and fails on request at its control address. Its page at / documents the control address, and lists the granted
    vouchers.
    """
    from tax_authority.stub.server import serving  # noqa: PLC0415 - lxml and cryptography, for this command alone

    stopped = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        with serving(port=port) as stub:
            click.echo(f"{stub.url} simulates the tax authority:")
            for service, address in stub.addresses.items():
                click.echo(f"  {service:<7} {address}")
            click.echo("Its authorisations have no legal value. Ctrl-C stops it.")
            stopped.wait()
    except OSError as error:
        raise click.ClickException(f"port {port} of 127.0.0.1 cannot be used: {error.strerror}") from error
