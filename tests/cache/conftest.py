from tests.watch.conftest import gate, secrets_watch, watch_secrets

__all__ = ["gate", "secrets_watch", "watch_secrets"]
