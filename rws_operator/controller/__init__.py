"""Controllers: what an author declares, and the loop that keeps objects as their spec says."""
