"""Admission and conversion webhooks, and the certificate that the API server trusts them by."""
