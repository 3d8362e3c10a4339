"""The catalogue: what the runtime promises to do, by id, each shown by tests that carry its id.

    @pytest.mark.behaviour("RUN-01", "B5")
    async def test_a_stopping_leader_renews_until_it_releases(...): ...

A test carries an id only if it would fail without that behaviour. `ci/behaviours` writes
tests/BEHAVIOURS.md from here and from the marks. Each behaviour needs a test on the real API
server; others may stand beside it.
RUN to HTP are single behaviours by area, B the classes of bugs that other runtimes had, S the
scenarios that broke one.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Behaviour(NamedTuple):
    """What is promised.

    Attributes:
        sentence: The promise, as it is kept.
        not_yet: Why it is not made yet; empty for all that are.
    """

    sentence: str
    not_yet: str = ""


_RUN = {
    "RUN-01": Behaviour(
        "The Lease is renewed as long as anything runs under it, and is released after the last "
        "run has ended."
    ),
    "RUN-02": Behaviour(
        "A replica that lost its Lease gets no grace: its runs are cancelled, their writes "
        "refused, and the process exits 1."
    ),
    "RUN-03": Behaviour("A replica that was told to stop before it led never leads afterwards."),
    "RUN-04": Behaviour(
        "No run starts before every informer that its controller reads has synced."
    ),
    "RUN-05": Behaviour(
        "A part that fails, or ends too early, ends the whole operator; all parts are waited for, "
        "and the error of each is told."
    ),
    "RUN-06": Behaviour(
        "What an operator runs is defined before it starts: a part that is added later, and a "
        "second run, are refused."
    ),
    "RUN-07": Behaviour(
        "To cancel a run is no error, and leaves no task, thread, socket or client behind, not "
        "even with events on their way."
    ),
    "RUN-08": Behaviour(
        "A stop lets running reconciles end and starts no queued one; to stop what never ran is "
        "harmless."
    ),
    "RUN-09": Behaviour(
        "A missing permission for the Lease is told once, with verb and resource, and is asked "
        "for again until it is granted."
    ),
    "RUN-10": Behaviour(
        "An operator that starts again runs each object that exists once, and neither makes a "
        "child anew nor writes to one that is as it should be."
    ),
    "RUN-11": Behaviour(
        "An informer that may not list holds its controllers back, is named by readiness, and "
        "heals as soon as the permission comes."
    ),
}

_RECONCILE = {
    "REC-01": Behaviour(
        "The first run sees the whole first list, of its own kind and of all others it reads."
    ),
    "REC-02": Behaviour(
        "Whatever a handler raises is counted and tried again while other objects go on; a "
        "permanent error waits for a change of its object."
    ),
    "REC-03": Behaviour(
        "Only a run that ends well resets the back-off: neither a delay that was asked for nor a "
        "requeue that an error prevented does."
    ),
    "REC-04": Behaviour(
        "A timeout is counted where our own deadline cut the run, not for a TimeoutError of the "
        "handler's and not for a stop."
    ),
    "REC-05": Behaviour("A back-off lasts its time, however often other events arrive."),
    "REC-06": Behaviour(
        "A limit of tries ends them until the object changes or a longest interval has passed.",
        not_yet="tries are not limited: the back-off ends at 300 s and goes on",
    ),
    "REC-07": Behaviour(
        "A hook learns of each failed try, and whether it was the last, and may end the tries.",
        not_yet="no such hook: a handler knows its attempt, and raises a PermanentError itself",
    ),
    "REC-08": Behaviour(
        "One object never has two runs at once, nor one beside a thread that another left; "
        "different objects do."
    ),
    "REC-09": Behaviour(
        "A rate limit merges a burst of changes into one delayed run.",
        not_yet="no rate limit: changes during a run are merged into one, the first runs at once",
    ),
    "REC-10": Behaviour(
        "Controllers that share a kind by selectors each run their own objects, and one that "
        "moves runs where it went."
    ),
    "REC-11": Behaviour(
        "A controller's own kind may be cluster-scoped, built-in, or without a class."
    ),
}

_QUEUE = {
    "QUE-01": Behaviour(
        "What changed runs before what was only listed; what has waited for long takes turns."
    ),
    "QUE-02": Behaviour("An object that is added many times before its run runs once."),
    "QUE-03": Behaviour("An object that runs is given to no other worker."),
    "QUE-04": Behaviour("However many changes during a run cause exactly one more, after it."),
    "QUE-05": Behaviour("An object that is listed and then changed is run as a changed one."),
    "QUE-06": Behaviour("An object that is changed and then listed again loses no place."),
    "QUE-07": Behaviour(
        "A change runs earlier than a pending timer, which that run drops; of several timers of "
        "one object the last one counts."
    ),
    "QUE-08": Behaviour("What waits for a timer is not counted in the depth of the queue."),
    "QUE-09": Behaviour("A stop wakes every worker that waits, and hands out nothing more."),
    "QUE-10": Behaviour("Within a lane, first come is first served."),
}

_OWN_WRITES = {
    "FIN-01": Behaviour("The finalizer is on the server before the first reconcile of an object."),
    "FIN-02": Behaviour(
        "A cleanup may write the status and ask to be called again; the finalizer stays until it "
        "is done."
    ),
    "FIN-03": Behaviour(
        "Two controllers that take off their finalizers at once take off both, and no other."
    ),
    "FIN-04": Behaviour(
        "A spec that its author applies takes no finalizer of ours off, and we none of others; "
        "where a whole list is written over ours, it is put on again."
    ),
    "FIN-05": Behaviour(
        "A controller without a cleanup puts no finalizer on; one with a cleanup does so on "
        "built-in kinds, too."
    ),
    "STA-01": Behaviour("A status that we write leaves the fields of others in it alone."),
    "STA-02": Behaviour(
        "A child that our own manager made by create or update is taken over by the first apply: a "
        "field that the document does not name goes, those of others and our finalizers stay."
    ),
    "STA-03": Behaviour("The next run sees at least the status that the last one wrote."),
    "STA-04": Behaviour(
        "A status is written to the version it was compared with; on a conflict it is read again "
        "and, of the same object, tried again."
    ),
    "RYW-01": Behaviour(
        "After an apply, a status patch, a deletion and each verb of the context's client both get "
        "and list give the new state, however far the watch is behind."
    ),
    "RYW-02": Behaviour(
        "An object that a finalizer keeps is seen with its deletionTimestamp; of five writes in a "
        "row the last is seen."
    ),
    "RYW-03": Behaviour("A spec that is edited while a run writes the status is run again."),
    "RYW-04": Behaviour("A deletion while a run writes the status leads to the cleanup."),
    "RYW-05": Behaviour(
        "A foreign change of a child while a run writes it, or between two of its writes, runs "
        "its owner again."
    ),
    "RYW-06": Behaviour(
        "Own writes alone, to the object and to its children, cause no run: not one for 250 "
        "objects."
    ),
    "RYW-07": Behaviour(
        "A list in the middle of an own write loses nothing, with and without a selector."
    ),
}

_SOURCES = {
    "SRC-01": Behaviour("When a child changes the object that it refers to, old and new both run."),
    "SRC-02": Behaviour(
        "A child that exists before its owner is cached is found by the owner's first run."
    ),
    "SRC-03": Behaviour(
        "A source can be added at run time, for a kind that is only known then.",
        not_yet="what a controller watches is fixed when it is defined",
    ),
    "SRC-04": Behaviour(
        "A source that polls wakes the objects that changed only, and ends with its object.",
        not_yet="no source polls: a run asks for its next one by Action.requeue",
    ),
    "SRC-05": Behaviour(
        "An object that leaves the selector counts as gone here; once it is deleted it is cleaned "
        "up where it went, or, if nobody does that, where it came from."
    ),
    "SRC-06": Behaviour(
        "Namespaces can be changed at run time, on the leader and on a standby.",
        not_yet="the namespaces of a controller are fixed when it is defined",
    ),
    "SRC-07": Behaviour(
        "Children may live in another cluster.",
        not_yet="an operator works in one cluster; a handler may use any client, uncached",
    ),
    "SRC-08": Behaviour(
        "An owner reference at another version of the owner's kind still runs the owner."
    ),
    "DEP-01": Behaviour(
        "A child that is as it should be is not written: StatefulSet, Service, Secret, Deployment "
        "with quantities, and what the server fills in."
    ),
    "DEP-02": Behaviour(
        "What a child's document does not name is not taken back from others; two children of one "
        "kind are kept apart."
    ),
    "DEP-03": Behaviour(
        "Of many children of one kind the surplus is removed, and an id outside of the cluster "
        "outlives a restart between its creation and its record.",
        not_yet="no sets of children and no external ids; prune removes what a run left out",
    ),
    "WFL-01": Behaviour(
        "Steps run in order and in branches, stop at one that is not ready, and are undone in "
        "reverse.",
        not_yet="no workflows yet",
    ),
    "WFL-02": Behaviour(
        "A deletion waits until what a step made is really gone.",
        not_yet="no workflows yet",
    ),
    "WFL-03": Behaviour(
        "A step whose kind is not served is left out, and taken in when its CRD comes.",
        not_yet="no workflows yet",
    ),
    "WFL-04": Behaviour(
        "A step that fails is told, and its siblings go on.",
        not_yet="no workflows yet",
    ),
}

_SERVING = {
    "CRT-01": Behaviour(
        "Mounted certificate files are taken in after a write, a rename and a swap of links, also "
        "when they went and came back; a bad pair leaves the old one served, and is told."
    ),
    "HTP-01": Behaviour(
        "A port in use ends the start with its address; a stop frees the port; known paths only "
        "are served."
    ),
}

_BUGS = {
    "B1": Behaviour(
        "A lagging watch makes no second child: each run sees what earlier runs of the process "
        "made, under a generated name, too."
    ),
    "B2": Behaviour(
        "Only the exact echo of an own write is dropped: a foreign edit or deletion beside it "
        "always leads to a run."
    ),
    "B3": Behaviour(
        "What another deleted while the watch was cut is not kept alive by the answer to our own "
        "write; it is made again."
    ),
    "B4": Behaviour(
        "What is remembered of own writes changes no write's result: evictions, scales and tokens, "
        "and a deletion straight after the creation, answer as the server does."
    ),
    "B5": Behaviour(
        "No write of a replica starts after its renew deadline, and none arrives after the next "
        "leader's acquire time; the Lease is given up after the last write."
    ),
    "B6": Behaviour(
        "A lost Lease ends the process in bounded time, whatever a handler swallows or blocks."
    ),
    "B7": Behaviour(
        "Replicas whose clocks are an hour apart elect one leader at a time, and wait for the "
        "holder's own duration, or for theirs if that is longer."
    ),
    "B8": Behaviour(
        "A standby takes over a large cache without a list: its first run comes within the Lease "
        "and two seconds of the leader's death."
    ),
    "B9": Behaviour(
        "A standby runs nothing, and runs everything that it saw meanwhile once when it leads."
    ),
    "B10": Behaviour(
        "No watch stays dead: 410 in both forms, cut and half-open connections, a compacted etcd, "
        "401 and 403 all heal without a restart, and show until they do."
    ),
    "B11": Behaviour("A streamed list that never says its end is given up, and read in pages."),
    "B12": Behaviour(
        "A list after a gap tells the deletions that were missed, with their last state, and an "
        "object made again under its name as another one."
    ),
    "B13": Behaviour("Objects of the first list are run in time although others keep changing."),
    "B14": Behaviour(
        "Watches that break and lists that repeat run nothing that has not changed, and do not "
        "delay a fresh edit."
    ),
    "B15": Behaviour(
        "A status that says nothing new is not written, and an own status write runs nothing: a "
        "settled object keeps its resource version. One that changes again and again by time "
        "stamps alone is counted, and its controller named in a warning, as is one whose runs of "
        "an object change something each, again and again."
    ),
    "B16": Behaviour(
        "Wherever timer, event and error meet, the next run comes when the table of the queue "
        "says, neither lost nor doubled."
    ),
    "B17": Behaviour(
        "Foreign events neither reset nor use up the tries of a failing object; a new spec runs "
        "it at once."
    ),
    "B18": Behaviour(
        "While others add and remove their own finalizers only ours comes and goes; an object "
        "that is gone is done, and one being deleted gets none."
    ),
    "B19": Behaviour(
        "Each concern has one field manager: what a document leaves out goes, what others own "
        "stays, and an apply that changes nothing leaves the resource version."
    ),
    "B20": Behaviour(
        "Owners that the server would not keep are refused before a request, and so is who would "
        "take a child from its owner; an owner made again adopts nothing by its name alone."
    ),
    "B21": Behaviour(
        "A kind that is stored at a version which only our own conversion can read is synced: the "
        "webhooks are ready before the caches."
    ),
    "B22": Behaviour(
        "No call fails for a certificate: while it is renewed, deleted, damaged, or made by two "
        "replicas at once."
    ),
    "B23": Behaviour(
        "Manifests that are applied again leave the caBundle, and an uninstall ends a conversion "
        "before what answers it, so that no namespace hangs."
    ),
    "B24": Behaviour("No call fails while the replicas are rolled."),
    "B25": Behaviour(
        "A mutation keeps what the class does not know, and leaves numbers and quantities as they "
        "were written."
    ),
    "B26": Behaviour(
        "A CRD may come late, go, come back, and come back with another version: its own watch "
        "waits, all others go on."
    ),
    "B27": Behaviour(
        "No read starts a watch; long lists are paged, an expired one begins anew and is never "
        "taken for whole; the memory of many large objects is bounded."
    ),
    "B28": Behaviour("What a handler does to the object that it got, no other read sees."),
    "B29": Behaviour(
        "Ten thousand equal events are a handful of writes; no event blocks or fails a run, and "
        "what is dropped is counted."
    ),
    "B30": Behaviour(
        "A namespace that ends takes its objects, children and permissions along without a storm "
        "of errors; a token that was replaced is used at once, by watches, too."
    ),
}

_SCENARIOS = {
    "S1": Behaviour("410, again and again and in both forms, is a list with a back-off."),
    "S2": Behaviour("A deletion in a gap of the watch is told with the last known state."),
    "S3": Behaviour("A stream that falls silent is opened anew within the idle deadline."),
    "S4": Behaviour("A server that ends each watch at once meets a handful of new ones in 10 s."),
    "S5": Behaviour(
        "An HTML page for a watch, an ERROR event without a reason and a line of 6 MiB stop no "
        "watch."
    ),
    "S6": Behaviour(
        "An API server that is away for a minute finds every part at work when it comes back."
    ),
    "S7": Behaviour(
        "A storm of 401 while the token file is replaced costs one reading of the file, and no "
        "watch and no session."
    ),
    "S8": Behaviour("A kind that may not be watched hinders no other kind."),
    "S9": Behaviour("With a hundred watches open requests still flow."),
    "S10": Behaviour("A list whose continue token expires is read anew, and nothing is missing."),
    "S11": Behaviour("1,200 objects on three pages are all cached before the cache is synced."),
    "S12": Behaviour(
        "Whether the API server refuses or hangs, work stops before the Lease expires; never two "
        "lead; its times are UTC; SIGTERM releases it."
    ),
    "S13": Behaviour("A restart over thousands of settled objects sends no write."),
    "S14": Behaviour(
        "A backlog of thousands is worked off as quickly as the work allows: no worker waits for "
        "a timer while anything is ready."
    ),
    "S15": Behaviour(
        "A plain handler that sleeps for long holds up no watch, no Lease and no probe."
    ),
    "S16": Behaviour("A status field that the schema prunes is an error that names it."),
    "S17": Behaviour("Two operators at one kind leave no annotation, however long they run."),
    "S18": Behaviour(
        "Webhook configurations that are right are not written; a certificate is changed without "
        "a restart; followers serve, too."
    ),
}

AREAS: Final = {
    "Running and electing": _RUN,
    "Reconciling": _RECONCILE,
    "The queue": _QUEUE,
    "Own writes": _OWN_WRITES,
    "Sources and children": _SOURCES,
    "Serving": _SERVING,
    "Bugs that others had": _BUGS,
    "Scenarios": _SCENARIOS,
}
"""The behaviours by area, in the order they are listed in."""

BEHAVIOURS: Final = {key: each for area in AREAS.values() for key, each in area.items()}
"""All behaviours by id."""
