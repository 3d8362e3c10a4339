"""Takes an operator out of a cluster, in the one order that can't wedge it.

A webhook that nobody answers blocks every write it is asked about; a conversion that nobody
answers blocks reads, garbage collection and the end of namespaces in the whole cluster; an object
whose finalizer nobody takes off can't go. So what depends on the running operator goes while it
runs, and what would block without it goes first:

1. It is checked that all of it may be done. Nothing is changed if not.
2. The webhook configurations: from then on no write fails for want of an answer, not even those
   below. They go before the conversion, which is a write to a CRD; the API server asks no webhook
   about a webhook configuration.
3. The conversions. Objects stored in an older version are written anew first, in the storage
   version and by the conversion itself, for without it the API server would read them as if their
   fields had the new version's names. Where that can't be had, for no conversion answers, it is
   told; with ``keep_crds`` it ends here, with nothing lost. Then each CRD's strategy is set to
   None. A CRD of somebody else's that calls the operator stays, so it is treated as a kept one.
4. The CRDs, and with them their objects, while the operator still runs and cleans up. The wait is
   bounded; its error names what is left, on what it waits and the remedy, and leaves the operator
   running. Finalizers are stripped only from objects that are being deleted already: a running
   operator would put them back on any other.
5. The Deployment and its pods, then, with ``keep_crds``, the finalizers on what stays.
6. The rest: monitoring, budget, Service, network policy, Lease, Secret, permissions. Of what is
   printed on request only, nobody knows whether it was applied, so it goes if it is labelled as
   the operator's. The namespace stays, for what else is in it nobody knows, unless its end is
   asked for by name (``delete_namespace``).

Each step takes "there is none" for done, so that the whole can be run again wherever it stopped,
with the operator alive, dead or gone.
"""

from rws_operator.uninstall.errors import UninstallIncomplete
from rws_operator.uninstall.order import uninstall
from rws_operator.uninstall.survey import survey

__all__ = ["UninstallIncomplete", "survey", "uninstall"]
