"""`rws-operator new`: a whole project out of a starter and a few answers."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rws_operator.errors import ConfigurationError, OperatorError
from rws_operator.project.answers import check_answer
from rws_operator.project.names import kind_of_project
from rws_operator.project.starters import NAMES, Starter, check_empty

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NEXT = {
    "operator": {
        "make test": "its tests, on a real API server",
        "make dev": "run it on one, and again at each change",
        "make manifests": "print what installs it",
    },
    "minimal": {"less README.md": "how to run and install it"},
}


@click.command()
@click.argument("name", required=False)
@click.option(
    "--starter",
    type=click.Choice(NAMES),
    default=NAMES[0],
    show_default=True,
    help="A whole project, or one file.",
)
@click.option("--group", metavar="DOMAIN", help="API group of its custom resource.")
@click.option("--kind", metavar="NAME", help="Kind of its custom resource, in CamelCase.")
@click.option("--plural", metavar="NAME", help="The kind's plural, where English is wrong.")
@click.option("--module", metavar="NAME", help="Python module of the kind.")
@click.option("--description", metavar="TEXT", help="What it does, in one sentence.")
@click.option(
    "--runtime",
    metavar="WHERE",
    help="rws-operator itself: a checkout, a wheel, git+https://…@REF or rws-operator==VERSION.  "
    "[default: what this program was installed from]",
)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where its folder is made.  [default: here]",
)
@click.option("--no-input", is_flag=True, help="Ask nothing: take the defaults.")
def new(starter: str, output_dir: Path, no_input: bool, **given: str | None) -> None:
    """Begin an operator: make the folder NAME with a project that runs, is tested and ships."""
    try:
        chosen = Starter(starter)
        answers = _answers(chosen, given, output_dir, no_input=no_input)
        with _ended_by_sigterm():
            made = chosen.make(answers, output_dir)
    except OperatorError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Made {made}. Go on there:\n\n  cd {shlex.quote(str(made))}")
    width = max(map(len, _NEXT[starter]))
    for command, what in _NEXT[starter].items():
        click.echo(f"  {command:<{width}}   # {what}")


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the program as an exception does, so that what is half made is removed."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _answers(
    starter: Starter, given: Mapping[str, str | None], output_dir: Path, *, no_input: bool
) -> dict[str, str]:
    """An answer to each of a starter's questions: given, asked for, or the default."""
    for question, answer in given.items():
        if answer is not None and question not in starter.questions:
            raise click.UsageError(f"--{question}: this starter does not ask for it")
    answers: dict[str, str] = {}
    for question, words in starter.questions.items():
        answer = given[question]
        default = starter.default(question, answers) if answer is None else answer
        if question == "kind" and answer is None:
            default = _usable_kind(default, answers)
        if answer is not None or no_input:
            answers[question] = check_answer(question, default, answers)
        else:
            answers[question] = _ask(question, words, default, answers)
        if question == "name":
            check_empty(output_dir / answers["name"])
    return answers


def _ask(question: str, words: str, default: str, answers: dict[str, str]) -> str:
    """Ask until the answer can be used."""

    def checked(typed: str) -> str:
        try:
            return check_answer(question, typed, answers)
        except ConfigurationError as error:
            raise click.UsageError(str(error)) from error

    answer: Any = click.prompt(words, default=default, value_proc=checked)
    return str(answer)


def _usable_kind(kind: str, answers: Mapping[str, str]) -> str:
    """A kind that a project's name suggests; where it can't be one, another, and why."""
    try:
        return check_answer("kind", kind, answers)
    except ConfigurationError as error:
        instead = kind_of_project("greeting")
        click.echo(f"note: {error.what}; {instead} instead, unless --kind names one", err=True)
        return instead
