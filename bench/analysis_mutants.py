"""How many faults of the polyhedral analyses their tests catch (docs/mutation.md).

Puts each fault of ``test/unit/analysis_mutants.py`` into a copy of the package and runs the
tests of the file.  Prints a line a mutant and the rate.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from polyc.test.unit.analysis_mutants import MUTANTS, caught, copied


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="", help="only files whose name contains this")
    args = parser.parse_args(argv)
    chosen = [m for m in MUTANTS if args.file in m.file]
    found: Counter[tuple[str, bool]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        root = copied(Path(folder))
        for mutant in chosen:
            by = caught(mutant, root)
            found[mutant.file, by is not None] += 1
            print(f"{mutant.file}: {mutant.what}: {by or 'SURVIVED'}", flush=True)
    for file in dict.fromkeys(m.file for m in chosen):
        print(f"{file}: {found[file, True]} of {found[file, True] + found[file, False]}")
    total = sum(found[file, True] for file in {m.file for m in chosen})
    print(f"{total} of {len(chosen)} caught, {100 * total / len(chosen):.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
