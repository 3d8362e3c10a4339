"""Refuses names that Kubernetes or Python would refuse later, and says why."""

import re
import sys

CHECKS = {
    "name": ("{{ cookiecutter.name }}", r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", "a DNS label"),
    "group": ("{{ cookiecutter.group }}", r"[a-z0-9-]+(\.[a-z0-9-]+)+", "a domain name"),
    "kind": ("{{ cookiecutter.kind }}", r"[A-Z][A-Za-z0-9]*", "a CamelCase name"),
}

for field, (value, pattern, form) in CHECKS.items():
    if not re.fullmatch(pattern, value):
        sys.exit(f"{field}: {value!r} is not {form}")
