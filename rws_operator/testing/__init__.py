"""A real control plane for tests, and what makes tests against it short."""
