"""Refuses answers that Kubernetes, Python or pip would refuse later, and says why."""

import json
import sys

from rws_operator.errors import ConfigurationError
from rws_operator.project.answers import check_answers

answers = json.loads({{ cookiecutter | jsonify | pprint }})
del answers["runtime"]  # relative to where cookiecutter was run; it was looked at there

try:
    check_answers(answers)
except ConfigurationError as error:
    sys.exit(str(error))
