"""What is asked before a {{ cookiecutter.kind }} is stored.

A schema and CEL rules see one object. These functions also see who asks, and the other objects.
"""

from rws_operator import AdmissionRequest, Denied

from app import operator
from app.{{ cookiecutter.module }} import {{ cookiecutter.__class }}

CREATED_BY = "{{ cookiecutter.group }}/created-by"
LIMIT = 100
"""How many there may be in a namespace."""


@operator.mutate({{ cookiecutter.__class }}, operations=["CREATE"])
def note_author(request: AdmissionRequest[{{ cookiecutter.__class }}]) -> {{ cookiecutter.__class }}:
    """Note down who created it."""
    created = request.object
    annotations = created.metadata.annotations or {}
    created.metadata.annotations = annotations | {CREATED_BY: request.user.username}
    return created


@operator.validate({{ cookiecutter.__class }}, operations=["CREATE"])
async def keep_limit(request: AdmissionRequest[{{ cookiecutter.__class }}]) -> None:
    """Deny what is one too many for its namespace."""
    others = await request.client.list({{ cookiecutter.__class }}, request.namespace)
    if len(others) >= LIMIT:
        raise Denied(f"there are {len(others)} of {LIMIT} already")
