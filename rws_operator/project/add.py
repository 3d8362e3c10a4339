"""`rws-operator add`: a further kind, or a kind's webhooks, for a project that `new` made.

What is added is what the starter has for its own kind, with other names. What is there stays as it
is; the one line that another file needs is an import in `app/__main__.py`. Doing it twice changes
nothing.
"""

from __future__ import annotations

import contextlib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from rws_operator.errors import ConfigurationError, OperatorError
from rws_operator.project.add_kinds import names_of
from rws_operator.project.add_project import PACKAGE, PROGRAM, Project
from rws_operator.project.answers import check_answer
from rws_operator.project.names import module_of
from rws_operator.project.origin import PACKAGE as RUNTIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rws_operator.project.add_kinds import DefinedKind

_KIND = (
    "app/{module}.py",
    "tests/test_{module}_unit.py",
    "tests/test_{module}.py",
    "examples/{module}.yaml",
)
_WEBHOOK = ("app/{module}_webhooks.py", "tests/test_{module}_webhooks.py")
_SUFFIXES = ("_unit", "_webhooks")
"""What the names of a kind's other files end in."""


@click.group()
def add() -> None:
    """Put more into a project that `new` made; what is there stays as it is."""


@add.command()
@click.argument("name")
@click.option("--group", metavar="DOMAIN", help="Its API group.  [default: the project's]")
@click.option("--plural", metavar="NAME", help="Its plural, where English is wrong.")
@click.option("--module", metavar="NAME", help="Its Python module.")
def kind(name: str, **given: str | None) -> None:
    """Add the kind NAME: its schema, controller, tests and example."""
    with _told_failures():
        project = Project.find(Path.cwd())
        answers = _answers(project, name, given)
        _extend(project, answers, _KIND)


@add.command()
@click.argument("kind", metavar="NAME")
def webhook(kind: str) -> None:
    """Add webhooks of the kind NAME, which is there already."""
    with _told_failures():
        project = Project.find(Path.cwd())
        found = project.kind(kind)
        if found is None:
            there = ", ".join(sorted({each.kind for each in project.kinds})) or "none"
            raise ConfigurationError(
                f"there is no kind {kind} in {PACKAGE}/, but {there}",
                remedy=f"add it: rws-operator add kind {kind}",
            )
        answers = _answers(project, kind, {})
        module = _WEBHOOK[0].format(**answers)
        holding = project.webhooks(found.class_name)
        for other in holding:
            if other != module:
                raise ConfigurationError(
                    f"{kind} has webhooks in {other}", remedy="write others there"
                )
        if project.has(module) and not holding:
            raise ConfigurationError(
                f"there is {module} already, and it has no webhook of {kind}",
                remedy="write it there",
            )
        _extend(project, answers, _WEBHOOK)


def _answers(project: Project, kind: str, given: Mapping[str, str | None]) -> dict[str, str]:
    """What the starter would ask for, checked, for a kind that is there or a new one.

    Raises:
        ConfigurationError: It can't be used, or is something else's already.
    """
    found = project.kind(kind)
    answers = {"name": project.name, "description": kind, "runtime": RUNTIME}
    if found is not None:
        _check_same(found, answers | _present(project, found), given)
        return answers | _present(project, found)
    defaults = {"group": project.group, "kind": kind, "plural": "", "module": module_of(kind)}
    for question, default in defaults.items():
        answers[question] = check_answer(question, given.get(question) or default, answers)
    _check_names(project, answers)
    _check_module(project, answers["module"])
    return answers


def _present(project: Project, found: DefinedKind) -> dict[str, str]:
    """What a kind that is there has."""
    path = PurePosixPath(found.path)
    if path.parent != PurePosixPath(PACKAGE) or path.stem.startswith("__"):
        raise ConfigurationError(
            f"{found.kind} is defined in {found.path}",
            remedy=f"what is added belongs to a module of its own in {PACKAGE}/: write it by hand",
        )
    return {
        "group": found.group or project.group,
        "kind": found.kind,
        "plural": found.plural,
        "module": path.stem,
    }


def _check_same(
    found: DefinedKind, present: Mapping[str, str], given: Mapping[str, str | None]
) -> None:
    """Refuse to add a kind that is there, but otherwise."""
    for question, wanted in given.items():
        if wanted is not None and wanted != present[question]:
            raise ConfigurationError(
                f"{found.kind} is in {found.path} already, with {question} {present[question]}",
                remedy=f"leave out --{question}, or choose another kind",
            )


def _check_names(project: Project, answers: Mapping[str, str]) -> None:
    """Refuse a kind that kubectl or the API server would take for another of the project."""
    wanted = names_of(answers["kind"], answers["plural"])
    own_plural = sorted({answers["plural"]} - {answers["kind"].lower()})
    for other in project.kinds:
        if taken := sorted(wanted & other.names):
            raise ConfigurationError(
                f"{answers['kind']} can't be told from {other.kind} in {other.path}: both would "
                f"be called {taken[0]}",
                remedy=f"choose another {'--plural' if taken == own_plural else 'kind'}",
            )


def _check_module(project: Project, module: str) -> None:
    """Refuse a module whose name, or whose tests' names, mean something already."""
    for path in (f"{PACKAGE}/{module}.py", f"{PACKAGE}/{module}"):
        if project.has(path):
            raise ConfigurationError(
                f"there is {path} already, and it does not define that kind",
                remedy="choose another --module",
            )
    if module in project.binds(f"{PACKAGE}/__init__.py"):
        raise ConfigurationError(
            f"{PACKAGE}/__init__.py has another {module}", remedy="choose another --module"
        )
    for other in (PurePosixPath(each.path).stem for each in project.kinds):
        for suffix in _SUFFIXES:
            if module == other + suffix or other == module + suffix:
                raise ConfigurationError(
                    f"tests/test_{max(module, other, key=len)}.py would be of both {module} and "
                    f"{other}",
                    remedy="choose another --module",
                )


def _extend(project: Project, answers: Mapping[str, str], templates: Sequence[str]) -> None:
    """Write what is missing, the module first, and have the program import it."""
    paths = [template.format(**answers) for template in templates]
    missing = [path for path in paths if not project.has(path)]
    made = project.render(answers, missing) if missing else {}
    for path in paths:
        if path in made:
            project.write(path, made[path])
            click.echo(f"made {path}")
        elif made:
            click.echo(f"left {path} as it is")
    line = f"import {PACKAGE}.{PurePosixPath(paths[0]).stem}"
    registered = project.register(line.removeprefix("import "))
    if registered:
        click.echo(f"changed {PROGRAM}: {line}")
    elif registered is None:
        click.echo(f"Add this line to {PROGRAM}, where it has no clear place:\n\n{line}\n")
    elif not made:
        click.echo("nothing to do: all of it is there")
    module = _KIND[0].format(**answers)
    if made and module not in made and "message" not in project.fields(module):
        click.echo(f"Its tests write spec.message: have them write what {module} asks for.")


@contextlib.contextmanager
def _told_failures() -> Iterator[None]:
    """End the command with one line instead of a traceback."""
    try:
        yield
    except OperatorError as error:
        raise click.ClickException(str(error)) from error
