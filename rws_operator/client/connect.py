"""How a program gets its client: the server found, and known to it before the first request."""

from __future__ import annotations

from rws_operator.client.api import Client
from rws_operator.client.load import load_config
from rws_operator.own_threads import in_own_thread


async def client(
    kubeconfig: str | None = None, context: str | None = None, *, user_agent: str | None = None
) -> Client:
    """Return a client of the API server that this program belongs to.

    Args:
        kubeconfig: Files in the form of KUBECONFIG; None: the pod's ServiceAccount if this is a
            pod, else the environment's KUBECONFIG, else ``~/.kube/config``.
        context: Name of a context in these files, which then go before the ServiceAccount; None:
            the current one.
        user_agent: The User-Agent header; default ``rws-operator``.

    Raises:
        KubeconfigError: None was found, or what was found can't be used; or its credentials have
            to be fetched, e.g. by a plugin, and can't be.
    """
    made = Client(await in_own_thread(load_config, kubeconfig, context), user_agent=user_agent)
    try:
        await made.config.credentials.authorization()
    except BaseException:
        await made.close()
        raise
    return made
