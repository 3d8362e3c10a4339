"""The program, ``python -m app``: each module imported here registers what it declares."""

import app.{{ cookiecutter.module }}
import app.{{ cookiecutter.module }}_v1alpha1
import app.{{ cookiecutter.module }}_webhooks
from app import operator as operator

if __name__ == "__main__":
    operator.main()
