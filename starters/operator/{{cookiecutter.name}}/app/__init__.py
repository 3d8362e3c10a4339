"""The operator: what its controllers and webhooks have in common."""

from rws_operator import Operator

operator = Operator("{{ cookiecutter.name }}")
operator.leader_election()
