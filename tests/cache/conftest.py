from tests.watch.conftest import secrets_watch, watch_secrets

__all__ = ["secrets_watch", "watch_secrets"]
