"""Brings the generated Python into the form that the project's own linter asks for."""

from pathlib import Path

from rws_operator.project.starters import lay_out

lay_out(Path())
