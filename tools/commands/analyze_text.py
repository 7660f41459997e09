"""The report of ``polyc analyze`` for people: a paragraph a block, then guards and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polyc.cost.time import TYPICAL

Json = Mapping[str, Any]

WIDTH = 12
"""Columns of a paragraph's first word."""


def report_text(report: Json) -> str:
    """The whole text of one graph's report, ending in a line break."""
    symbols = ", ".join(report["symbols"]) or "none"
    lines = [f"@{report['graph']} for {report['arch']}, symbols {symbols}", ""]
    view = {b["name"]: b for b in report["poly_view"]["blocks"]}
    for block in report["analysis"]:
        lines += [*_block(block, view[block["block"]]), ""]
    for chain in report["chains"]:
        lines.append(_row("chain", " -> ".join(chain)))
    for boundary in report["poly_view"].get("boundaries", ()):
        lines += [f"{boundary['value']} is a boundary", _row("", boundary["note"]), ""]
    lines += [*_guards(report["guards"]), *_why_not(report["why_not"]), *_regions(report)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(name: str, text: str) -> str:
    return f"  {name:<{WIDTH}}{text}"


def _block(block: Json, view: Json) -> list[str]:
    place = f"  ({block['at']})" if block["at"] else ""
    lines = [f"{block['block']} = {block['op']}{place}"]
    attrs = view.get("attrs")
    if attrs and attrs["pattern"] is not None:
        product = f"[{', '.join(attrs['lhs_idx'])}] x [{', '.join(attrs['rhs_idx'])}]"
        batch = f", batch {' '.join(attrs['batch'])}" if attrs["batch"] else ""
        lines.append(_row(attrs["pattern"], f"{product} -> [{', '.join(attrs['out_idx'])}]{batch}"))
    axes = f"parallel {' '.join(block['parallel_axes']) or 'none'}"
    if block["reduce_axes"]:
        axes += f"; reduced {' '.join(block['reduce_axes'])}"
    if block["gather_axes"]:
        axes += f"; reads any place of {' '.join(block['gather_axes'])}"
    lines.append(_row("axes", axes))
    tile = ", ".join(f"{name} {size}" for name, size in block["tile"].items())
    tails = f"; tails along {' '.join(block['tail_axes'])}" if block["tail_axes"] else ""
    lines.append(_row("tile", f"{tile or 'whole'}{tails}"))
    halo = block["compute_at"]["halo"]
    if any(halo["per_axis"].values()):
        sides = [
            f"{n} -{halo['low'].get(n, 0)} +{halo['high'].get(n, 0)}"
            for n, most in halo["per_axis"].items()
            if most
        ]
        lines.append(_row("halo", f"{', '.join(sides)}: {halo['bytes']} bytes"))
    lines += [_row("reads", _operand(o)) for o in block["operands"]]
    if (scan := block.get("scan")) is not None:
        axis, read = scan["axis"], scan["reads"]
        way, sign = ("from its end", ">") if scan["reverse"] else ("in order", "<")
        sign += "" if scan["exclusive"] else "="
        text = f"along {axis}, {way}: a point is made of those of {read} {sign} {axis}"
        lines.append(_row("scan", text))
    if block["min_buffer"] is not None:
        lines.append(_row("passes on", _buffer(block["min_buffer"])))
    for producer in block["compute_at"]["producers"]:
        at = " ".join(producer["legal_axes"]) or "no axis"
        lines.append(_row("compute at", f"{producer['producer']} once at each {at}"))
    if "barriers" in block:
        lines.append(_row("waits", _barriers(block["barriers"])))
    return lines


def _operand(operand: Json) -> str:
    if "blocked" in operand:
        return f"{operand['tensor']}: {operand['blocked']}"
    extents = " x ".join(f"({e})" if " " in str(e) else str(e) for e in operand["footprint"])
    text = f"{operand['tensor']}: {extents or 'one element'}, {operand['bytes']} bytes live"
    if "min_buffer" in operand:
        text += f", {_buffer(operand['min_buffer'], size=False)}"
    banks = operand.get("bank_conflicts")
    if banks is not None and banks["turns"] > 1:
        way = f"swizzle {banks['swizzle']}" if banks["swizzle"] else "padding"
        text += f"; ldmatrix takes {banks['turns']} turns, 1 with {way}"
    return text


def _buffer(buffer: Json, size: bool = True) -> str:
    kind = buffer["buffer"]
    text = f"smem_ring of {buffer['depth']}" if kind == "smem_ring" else str(kind)
    return f"{text}, {buffer['bytes']} bytes" if size else text


def _barriers(found: Json) -> str:
    if found["kind"] == "commit_wait":
        return (
            f"cp.async groups {found['ahead']} iterations ahead, {found['pending']} may fly at a "
            f"read; {found['stages']} stages"
        )
    return (
        f"{found['full']} full and {found['empty']} empty mbarriers, each full one expects "
        f"{found['expect_bytes']} bytes"
    )


def _point(failing: Json | None) -> str:
    if failing is None:
        return "some sizes"
    both = {**failing["axes"], **failing["symbols"]}
    return ", ".join(f"{n} = {v}" for n, v in both.items())


def _guards(guards: Json) -> list[str]:
    """The ledger; equal entries of several blocks are one."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for verdict in ("dropped", "kept"):
        for entry in guards[verdict]:
            if verdict == "dropped":
                why = f"as {entry['proof']['known']} is within it"
            else:
                why = f"false at {_point(entry['failing'])}"
            said = (verdict, f"{entry['of']}: {entry['guard']}", why)
            found.setdefault(said, []).append(entry["block"])
    lines: list[str] = []
    for (verdict, guard, why), blocks in found.items():
        lines += [_row(verdict, f"{' '.join(dict.fromkeys(blocks))}, {guard}"), _row("", why)]
    return ["guards", *lines, ""] if lines else []


def _why_not(refusals: Sequence[Json]) -> list[str]:
    lines: list[str] = []
    for found in refusals:
        block = f"{found['block']}: " if found["block"] else ""
        lines.append(_row(found["what"].replace("_", " "), f"{block}{found['reason']}"))
    return ["why not", *lines, ""] if lines else []


def _regions(report: Json) -> list[str]:
    lines: list[str] = []
    for region in report["regions"]:
        reduced = f", reduces {' '.join(region['reduce_axes'])}" if region["reduce_axes"] else ""
        iters = " ".join(region["parallel_axes"]) or "one point"
        lines.append(_row("region", f"@{region['region']} over {iters}{reduced}"))
        for tensor in region["writes"]:
            if "boundary" in tensor:
                lines.append(_row("", f"{tensor['tensor']} is stored: {tensor['boundary']}"))
    for found in report["region_dependences"]:
        lines.append(_row("order", f"@{found['to']} after @{found['from']}: {found['kind']}"))
    for plan in report["schedules"]:
        when = f" when {', '.join(plan['when'])}" if plan["when"] else ""
        tile = "x".join(map(str, plan["tile"]))
        ways = "".join(f"{what} {way}, " for what, way in plan["algo_choice"].items())
        loads = "" if plan["mma"] == "none" else f"{plan['mma']}, loader {plan['loader']}, "
        stages = f", {plan['stages']} stages" if plan["stages"] > 1 else ""
        parts = f" of {plan['split_k']} blocks" if plan["split_k"] > 1 else ""
        how = f"{ways}{loads}tile {tile}{parts}{stages}"
        lines.append(_row("kernel", f"@{plan['region']} {plan['variant']}: {how}{when}"))
    if "times" in report:
        lines += _times(report["times"])
    if "refused" in report:
        lines.append(
            _row("refused", f"{report['refused']['kind']}: {report['refused']['message']}")
        )
    return ["regions", *lines]


def _times(times: Json) -> list[str]:
    """Each kernel with its modelled time and what bounds it, and the sum."""
    sizes = ", ".join(f"{name} = {size}" for name, size in times["sizes"].items())
    said = f" ({TYPICAL} where --set does not say)" if times["assumed"] else ""
    if "unknown" in times:
        return [_row("time", f"not known at {sizes}: {times['unknown']}")]
    lines = [
        _row(
            "time",
            f"@{t['kernel']} {t['variant']}: {t['us']:g} us, bound by {t['bound']} (tensor cores "
            f"{t['tensor_cores_us']:g}, arithmetic {t['arithmetic_us']:g}, memory "
            f"{t['memory_us']:g}, L2 {t['l2_us']:g}, waiting {t['waiting_us']:g}, launch "
            f"{t['launch_us']:g}; waves {t['waves']:g})",
        )
        for t in times["kernels"]
    ]
    at = f" at {sizes}{said}" if sizes else ""
    return [*lines, _row("", f"{times['us']:g} us together{at}")]
