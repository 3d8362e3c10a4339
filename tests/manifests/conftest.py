"""Custom resources of the tests' own on the real API server."""

from tests.resources.conftest import install, installed_crds

__all__ = ["install", "installed_crds"]
