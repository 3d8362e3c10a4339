"""Controllers: what an author declares, and the loop that keeps objects as their spec says.

Start with `controller.py` (the declaration), then `loop.py` (the life of a controller),
`reconciler.py` (one run of one object) and `context.py` (what a handler gets).
"""

from rws_operator.controller.action import Action
from rws_operator.controller.backoff import Backoff, backoff
from rws_operator.controller.blocking import BlockingContext
from rws_operator.controller.context import Context
from rws_operator.controller.controller import Controller
from rws_operator.controller.environment import Environment
from rws_operator.controller.threads import HandlerThreads
from rws_operator.controller.triggers import Watch

__all__ = [
    "Action",
    "Backoff",
    "BlockingContext",
    "Context",
    "Controller",
    "Environment",
    "HandlerThreads",
    "Watch",
    "backoff",
]
