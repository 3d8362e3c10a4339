"""What a process does beside running its Operator."""

from __future__ import annotations

import gc

from rws_operator.process import spare_the_collector


def test_the_collector_is_spared_what_is_there() -> None:
    """Its rounds look at what came since."""
    try:
        spare_the_collector()
        assert gc.get_freeze_count() > 1000
        assert len(gc.get_objects()) < 1000
    finally:
        gc.unfreeze()
