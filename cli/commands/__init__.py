"""The commands that this application adds to `turno`."""

COMMANDS = {
    "demo": ("cli.commands.demo:demo", "Start everything here, invoice 830 orders and leave the pages open."),
    "docs": ("cli.commands.docs:docs", "Build the documentation as a site, and check its links."),
    "nemesis": (
        "cli.commands.nemesis:nemesis",
        "Inject random faults into a private installation, and check the promises.",
    ),
    "tax-authority": (
        "cli.commands.tax_authority:tax_authority",
        "Give branches their certificates for the tax authority.",
    ),
    "tax-authority-stub": (
        "cli.commands.tax_authority_stub:tax_authority_stub",
        "Simulate the tax authority on this machine until Ctrl-C.",
    ),
    "test": (
        "cli.commands.test:test",
        "Run the static checks and the fast ring of the tests, or with --deep every test there is.",
    ),
}
