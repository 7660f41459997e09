"""How many mutants of the legality tables random values catch.

Every row of the tables of R0, R1 and R2 with a precondition dropped, a class that claims more, a
wrong reduction or a wrong function; see ``test/support/legality_mutants.py``.  Prints the counts by
kind, and the mutants that survive.
"""

from __future__ import annotations

from collections import Counter

from polyc.test.support.legality_mutants import killed, mutants


def main() -> None:
    made, caught = Counter[str](), Counter[str]()
    survivors: list[str] = []
    for mutant in mutants():
        made[mutant.kind] += 1
        if killed(mutant):
            caught[mutant.kind] += 1
        else:
            survivors.append(f"{mutant.kind}: {mutant.name}")
    print("| mutants | made | caught |\n|---|---:|---:|")
    for kind in made:
        print(f"| {kind} | {made[kind]} | {caught[kind]} |")
    print(f"| all | {made.total()} | {caught.total()} |")
    for name in survivors:
        print(f"survived: {name}")


if __name__ == "__main__":
    main()
