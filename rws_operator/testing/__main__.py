"""`python -m rws_operator.testing`: have the control plane's programs ready, and say where.

Builds them if the machine has none yet; tests then start within seconds.
"""

import os
import sys

from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.find import find_programs
from rws_operator.testing.waiting import tell_interrupted


def main() -> int:
    """Find, fetch or build the programs; return the exit code."""
    if cluster := os.environ.get("RWS_TEST_KUBECONFIG"):
        sys.stdout.write(f"control plane: the cluster of {cluster}\n")
        return 0
    try:
        folders = {str(path.parent) for path in find_programs().values()}
    except ControlPlaneError as error:
        sys.stderr.write(f"control plane: {error}\n")
        return 1
    except KeyboardInterrupt:
        return tell_interrupted()
    sys.stdout.write(f"control plane: {' and '.join(sorted(folders))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
