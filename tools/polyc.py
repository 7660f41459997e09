"""``polyc``, the console script; ``commands`` is what it does."""

from __future__ import annotations

import sys

from polyc.runtime.garbage import collect_rarely
from polyc.tools.interrupt import watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """The console script, or a run of it in this process with ``argv``; returns the exit code."""
    args = sys.argv[1:] if argv is None else list(argv)
    if argv is None:
        watch(args)
        collect_rarely()
    # Imported late, for Ctrl-C to be watched meanwhile.
    from polyc.tools.commands.command_line import run

    return run(args)


if __name__ == "__main__":
    sys.exit(main())
