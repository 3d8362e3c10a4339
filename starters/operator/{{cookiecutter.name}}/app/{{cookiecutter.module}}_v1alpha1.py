"""The {{ cookiecutter.kind }} of v1alpha1.

Clients may still use it. Objects are stored as v1; each function here goes one way.
"""

from rws_operator import CustomResource, Field, Model

from app import operator
from app.{{ cookiecutter.module }} import (
    {{ cookiecutter.__class }},
    {{ cookiecutter.__class }}Spec,
    {{ cookiecutter.__class }}Status,
)


class {{ cookiecutter.__class }}V1Alpha1Spec(Model):
    """What is wanted."""

    text: str = Field(min_length=1, max_length=1024, description="What is published.")
    repeat: int = Field(default=1, ge=1, le=10, description="How many times it is said.")


class {{ cookiecutter.__class }}V1Alpha1(
    CustomResource,
    group="{{ cookiecutter.group }}",
    version="v1alpha1",
    kind="{{ cookiecutter.kind }}",
{%- if cookiecutter.plural != cookiecutter.kind | plural_of %}
    plural="{{ cookiecutter.plural }}",
{%- endif %}
    storage=False,
):
    """A message that is published in a ConfigMap."""

    spec: {{ cookiecutter.__class }}V1Alpha1Spec
    status: {{ cookiecutter.__class }}Status = {{ cookiecutter.__class }}Status()


@operator.convert({{ cookiecutter.__class }}V1Alpha1, {{ cookiecutter.__class }})
def upgrade(old: {{ cookiecutter.__class }}V1Alpha1) -> {{ cookiecutter.__class }}:
    """To the version that is stored."""
    spec = {{ cookiecutter.__class }}Spec(message=old.spec.text, repeat=old.spec.repeat)
    return {{ cookiecutter.__class }}(metadata=old.metadata, spec=spec, status=old.status)


@operator.convert({{ cookiecutter.__class }}, {{ cookiecutter.__class }}V1Alpha1)
def downgrade(stored: {{ cookiecutter.__class }}) -> {{ cookiecutter.__class }}V1Alpha1:
    """For a client that asks for v1alpha1."""
    spec = {{ cookiecutter.__class }}V1Alpha1Spec(text=stored.spec.message, repeat=stored.spec.repeat)
    return {{ cookiecutter.__class }}V1Alpha1(metadata=stored.metadata, spec=spec, status=stored.status)
