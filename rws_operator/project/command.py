"""The command `rws-operator` as a whole."""

import click

from rws_operator.project.controlplane import controlplane


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Tools for those who write operators."""


main.add_command(controlplane)
