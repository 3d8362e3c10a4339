"""The cache: what the API server said last of each kind we read, and what we wrote since.

`Informers` owns one `Informer` per kind and selection. In each a reflector brings what is new,
`merge` decides what it means, `store` keeps it.
"""

from rws_operator.cache.delta import Delta
from rws_operator.cache.informer import Informer, Write
from rws_operator.cache.informers import Informers

__all__ = ["Delta", "Informer", "Informers", "Write"]
