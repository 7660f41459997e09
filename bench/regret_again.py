"""What the model of time would choose now, of the plans that earlier runs have timed (S11.1).

    python bench/regret_again.py [FILE …] [--worst 10] [--half 1]

Reports of ``regret.py``, ``regret_columns.py``, ``regret_rows.py``, ``attention_regret.py`` and
``conv_networks.py`` have problems and what several plans of each took.  The model is asked of these
plans as it is now, and its first choice is compared with the fastest; no GPU is needed.  Those with
the largest regret are printed with what the model expects of both.  ``--half 0`` and ``--half 1``
are every second problem, so that constants can be fitted to some and judged by the others.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any, NamedTuple

from polyc.bench import attention_regret, conv_networks, race, regret, regret_columns, regret_rows
from polyc.bench.attention_regret import Kind
from polyc.bench.decode import HEADS
from polyc.cost.device import H100, H200, modelled_on
from polyc.cost.time import modelled
from polyc.dialects.common.diagnostic import PolycError
from polyc.families.rows.recognise import find_rows
from polyc.families.rows.variants import RowsVariant
from polyc.families.space import Tiling
from polyc.tuning.candidates import laid

RESULTS = Path(__file__).resolve().parent / "results"

Row = Mapping[str, Any]


class Timed(NamedTuple):
    """A plan of a problem: what was measured, and what the model expects now, in us."""

    name: str
    us: float
    model_us: float


class Again(NamedTuple):
    """A problem, its plans, and the first by the model."""

    name: str
    plans: Sequence[Timed]

    @property
    def first(self) -> Timed:
        return min(self.plans, key=lambda plan: plan.model_us)

    @property
    def best(self) -> Timed:
        return min(self.plans, key=lambda plan: plan.us)

    @property
    def loss(self) -> float:
        """The first plan's time over that of the fastest."""
        return self.first.us / self.best.us


def products(row: Row) -> Again:
    """A row of ``regret.py``."""
    sizes = (row.get("batch", 1), row["m"], row["n"], row["k"])
    found: list[Timed] = []
    for plan in row["plans"]:
        tiling = Tiling(**plan["tiling"])
        expected = regret.expected(sizes, row["class"], tiling)
        found.append(Timed(plan["name"], plan["us"], expected))
    return Again(regret.said(sizes), found)


def sums(row: Row) -> Again:
    """A row of ``regret_columns.py``."""
    problem = (row["op"], row["m"], row["n"])
    found: list[Timed] = []
    try:
        _, region = regret_columns.region_of(problem)
    except ValueError:
        return Again(regret_columns.said(problem), found)  # It is several regions by now.
    for plan in (*filter(None, [row.get("own")]), *row["plans"]):
        try:
            made = laid(region, regret_columns.ARCH, plan["fields"], (), plan["name"])
        except (KeyError, PolycError):
            continue  # A plan of before.
        found.append(Timed(plan["name"], plan["us"], modelled(region, made, {}).seconds * 1e6))
    return Again(regret_columns.said(problem), found)


def rows(row: Row) -> Again:
    """A row of ``regret_rows.py``."""
    problem = (row["op"], row["m"], row["n"])
    _, kernel = regret_rows.region(problem)
    region = find_rows(kernel)
    there = {variant.name: variant for _, variant in regret_rows.ways(problem)}
    found: list[Timed] = []
    for plan in row["plans"]:
        fields = plan.get("fields")
        variant = there.get(plan["name"]) if fields is None else RowsVariant(**fields)
        made = None if variant is None else regret_rows.plan_of(region, variant)
        if made is not None:
            found.append(Timed(plan["name"], plan["us"], modelled(kernel, made, {}).seconds * 1e6))
    return Again(f"{row['op']} {row['m']}x{row['n']}", found)


def attentions(row: Row) -> Again:
    """A row of ``attention_regret.py``."""
    found = re.fullmatch(r"(\d+)x(\d+) d(\d+) (?:(\d+)/(\d+) )?(\w+)", row["name"])
    assert found is not None
    heads, length, features = (int(found[i]) for i in (1, 2, 3))
    group = HEADS // int(found[5]) if found[5] else 1
    problem = attention_regret.Problem(Kind(features, found[6], group), heads, length)
    times = {name: us for us, name in attention_regret.expected(problem)}
    plans = [p for p in row["plans"] if p["name"] in times]
    return Again(row["name"], [Timed(p["name"], p["us"], times[p["name"]]) for p in plans])


def convolutions(row: Row) -> Again:
    """A row of ``conv_networks.py``."""
    sizes, rest = row["case"].split(" ", 1)
    images, _, shape = sizes.partition("x")
    text = rest.replace(row["layout"], "").replace(row["element"], "").strip()
    case = replace(
        conv_networks.Case.of(f"{shape} {text}"),
        images=int(images),
        layout=row["layout"],
        element=row["element"],
    )
    times = {plan.name: us for us, plan in conv_networks.space_of(case, 1 << 20, 0)}
    plans = [p for p in row["contestants"] if p["name"] in times]
    return Again(row["case"], [Timed(p["name"], p["us"], times[p["name"]]) for p in plans])


KINDS: Mapping[str, Callable[[Row], Again]] = {
    "regret-": products,
    "regret_columns": sums,
    "regret_rows": rows,
    "attention_regret": attentions,
    "conv_networks": convolutions,
}
"""How a report's rows are read, by how its name begins."""


def read(path: Path, half: int | None) -> Iterator[Again]:
    """The problems of a report of which several plans were timed."""
    kind = next(one for start, one in KINDS.items() if path.name.startswith(start))
    report = json.loads(path.read_text("utf-8"))
    device = H100 if "H100" in report["device"] else H200
    with modelled_on("sm_90a", device):
        for row in report["rows"][half :: 1 if half is None else 2]:
            found = kind(row)
            if len(found.plans) > 1:
                yield found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--worst", type=int, default=10)
    parser.add_argument("--half", type=int, choices=(0, 1))
    args = parser.parse_args(argv)
    for path in args.files or sorted(RESULTS.glob("*regret*.json")):
        found = list(read(path, args.half))
        if not found:
            print(f"{path.name}: none of its plans is there any more")
            continue
        losses = [one.loss for one in found]
        off = [abs(log(plan.model_us / plan.us)) for one in found for plan in one.plans]
        print(
            f"{path.name}: {len(found)} problems, regret {race.spread_of(losses)}, the model is "
            f"off by {exp(sum(off) / max(1, len(off))) - 1:.0%} in the mean"
        )
        for one in sorted(found, key=lambda one: -one.loss)[: args.worst]:
            first, best = one.first, one.best
            print(
                f"  {one.loss - 1:+4.0%} {one.name}: {first.name} {first.us:.1f} us, modelled "
                f"{first.model_us:.1f}; {best.name} {best.us:.1f}, modelled {best.model_us:.1f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
