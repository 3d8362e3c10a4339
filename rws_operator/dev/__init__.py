"""`python -m app dev`: an operator at work while it is written.

    session ── starts ──▶ fork server ── forks ──▶ child: the program, on the cluster
       ▲ watches the program's files                 │
       └──────────── what became of it ◀─────────────┘

The session is the process that the user started. It holds the cluster and never runs the program;
each run is a new process, so that no module is left from the run before.
"""
