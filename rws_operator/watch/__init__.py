"""Watching: one watch request (`watch`) and what keeps one going for ever (`reflector`, `states`).

It stands between the client, which gives bytes, and the cache, which keeps records.
"""

from rws_operator.watch.health import State, WatchHealth
from rws_operator.watch.reflector import Reflector
from rws_operator.watch.selection import Selection
from rws_operator.watch.sink import Sink
from rws_operator.watch.times import WatchTimes
from rws_operator.watch.watch import WatchEvent, watch

__all__ = [
    "Reflector",
    "Selection",
    "Sink",
    "State",
    "WatchEvent",
    "WatchHealth",
    "WatchTimes",
    "watch",
]
