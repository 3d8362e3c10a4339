"""The command `rws-operator` as a whole."""

import click

from rws_operator.project.add import add
from rws_operator.project.controlplane import controlplane
from rws_operator.project.new import new


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def main() -> None:
    """Tools for those who write operators."""


main.add_command(new)
main.add_command(add)
main.add_command(controlplane)
