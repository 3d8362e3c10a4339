"""Leader election by a Lease, and the write fence of the elected replica.

Above `client`, which asks the fence; below the operator, which starts workers when this replica
leads. `state` holds the rules, `elector` carries them out, `tenure` is what one run has of it.
"""

from rws_operator.election.elector import LeaderElector
from rws_operator.election.fence import LeaseFence
from rws_operator.election.handle import LeaderHandle

__all__ = ["LeaderElector", "LeaderHandle", "LeaseFence"]
