"""How many faults of the polyhedral analyses their tests catch (docs/tools/mutation.md).

Puts each fault of ``test/support/analysis_mutants.py`` into a copy of the package and runs the
tests of the file.  Prints a line a mutant and the table of the page.

    python bench/analysis_mutants.py --output bench/results/analysis_mutants.json
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from polyc.test.support.analysis_mutants import MUTANTS, caught, copied

Results = dict[str, dict[str, str | None]]
"""For each file and fault the test that failed, or None."""


def table(results: Mapping[str, Mapping[str, str | None]]) -> list[str]:
    """The rows of docs/tools/mutation.md: how many faults of each file are caught."""
    rows = ["| analysis | mutants | caught | survived |", "|---|---|---|---|"]
    counts = {file: list(found.values()) for file, found in results.items()}
    for file, found in [*counts.items(), ("all", [by for f in counts.values() for by in f])]:
        missed = found.count(None)
        name = file if file == "all" else f"`{file}`"
        rows.append(f"| {name} | {len(found)} | {len(found) - missed} | {missed} |")
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="", help="only files whose name contains this")
    parser.add_argument("--output", help="a JSON file for the verdicts")
    args = parser.parse_args(argv)
    results: Results = {}
    with tempfile.TemporaryDirectory() as folder:
        root = copied(Path(folder))
        for mutant in (m for m in MUTANTS if args.file in m.file):
            by = caught(mutant, root)
            results.setdefault(mutant.file, {})[mutant.what] = by
            print(f"{mutant.file}: {mutant.what}: {by or 'SURVIVED'}", flush=True)
    print("\n".join(table(results)))
    if args.output is not None:
        Path(args.output).write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
