"""Calls that were checked once, on PyTorch's tensors like those of before: what a call costs (J4).

What the checks of a call find depends on class, shape, strides, type and device of each tensor, on
whether it is negated or asks for a gradient, on its address modulo a period, and on which tensors
overlap.  Where all of that is as it was, only addresses differ, and a call is reading them, one
comparison, and one launch whose arguments were packed before.

The functions that do it are written for a number of tensors, so that nothing is looped over, and
are Python's: ``_TEXT`` is their pattern.  Each thread that is inside takes a packed launch of its
own from a list, whose ``pop`` and ``append`` are one step each.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from polyc.runtime import compiled_calls, driver, torch_guards, torch_tensors
from polyc.runtime.arenas import Arenas
from polyc.runtime.packed import Packed, Packing
from polyc.runtime.views import LIBRARY_NAMES, TensorView

if TYPE_CHECKING:
    from polyc.runtime.variants import Plan

CALLS_KEPT = 256
"""Calls that are kept of one kind, the oldest going first."""

GUARDS_MADE = 8
"""Checks that are made for one call at most: another is wanted in another mode of PyTorch's."""


def _no(*tensors: object) -> bool:
    return False


@dataclass(slots=True, eq=False)
class Kept:
    """A call that was checked, for those like it.

    ``key`` is what tensors of such calls show, ``residues`` their addresses modulo the period,
    ``sizes`` their bytes.  ``fresh`` are shape, strides and type of the outputs that the call
    allocates on ``device``.  ``plan`` is None where nothing is launched; what is one launch has a
    ``packing``, and ``free`` are the packed ones that no thread uses.  ``check`` says of tensors
    that they show the same as ``key``, or that it does not know.  ``guards_left`` and
    ``lessons_left`` are how often that is made anew, and the extension told of the call, at most.
    """

    key: object
    residues: tuple[int, ...]
    sizes: tuple[int, ...]
    fresh: tuple[tuple[tuple[int, ...], tuple[int, ...], Any], ...]
    device: Any
    index: int
    plan: Plan | None
    arenas: Arenas | None
    packing: Packing | None
    free: list[Packed] = field(default_factory=list[Packed])
    check: Callable[..., bool] = _no
    guards_left: int = GUARDS_MADE
    lessons_left: int = GUARDS_MADE


_NOTHING = Kept(None, (), (), (), None, 0, None, None, None)
"""Like no call."""


class Repeated:
    """The calls of one kind of a program: as many ``inputs`` and ``outputs``, which are given, or
    else allocated.

    ``run`` takes inputs, and outputs where they are given, and answers the outputs; None where no
    such call was checked, and then nothing has happened.  ``at=`` is the CUstream that the caller
    named, the current one being that of a call without.  Any number of threads may be in it.
    """

    run: Callable[..., Sequence[object] | None]

    def __init__(self, inputs: int, outputs: int, given: bool, period: int) -> None:
        self._inputs, self._outputs, self._given = inputs, outputs, given
        self._period = period
        self._calls: dict[object, Kept] = {}
        self._lock = threading.Lock()
        self._torch: Any = None
        self.run = self._none
        self._forget: Callable[[], None] = lambda: None
        self._compiled: Any = None

    @property
    def compiled(self) -> Callable[..., Sequence[object] | None]:
        """``run`` by the extension, where it is installed and reads this PyTorch's tensors."""
        return self.run if self._compiled is None else self._compiled.run

    @property
    def calls(self) -> Any:
        """The extension's calls, None where there are none."""
        return self._compiled

    @staticmethod
    def _none(*_: object, at: int | None = None) -> None:
        return None

    def _made_for(self, torch: Any) -> None:
        """Functions for the tensors of this PyTorch."""
        self._torch = torch
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None) if hasattr(torch, "_C") else None
        scope = {
            "T": torch.Tensor,
            "P": _parameter(torch),
            # Quicker than torch.empty, which reads its sizes from any kind of arguments.
            "empty": torch.empty_strided,
            "calls": self._calls,
            "nothing": _NOTHING,
            "guard": torch_guards.maker(torch),
            "stream_of": raw or torch_tensors.current_stream,
            "current": driver.current,
            "period": self._period,
            "far": _far,
            "order": driver.order,
            "keep_until": torch_tensors.keep_until,
        }
        powers = self._period & (self._period - 1) == 0
        kind = self._inputs, self._outputs, self._given, powers, scope["guard"] is not None
        made = _functions(*kind)(**scope)
        self.run, self._read, self._residues, find, self._forget = made
        kind = self._inputs, self._outputs, self._given, self._period
        self._compiled = compiled_calls.made(torch, *kind, self.run, find)

    def remember(
        self,
        tensors: Sequence[object],
        views: Sequence[TensorView],
        plan: Plan | None,
        index: int,
        arenas: Arenas,
    ) -> None:
        """Keep a call that was checked: ``tensors`` are those given, ``views`` of all."""
        torch: Any = sys.modules.get("torch")
        if torch is None or not tensors:
            return
        with self._lock:
            if self._torch is not torch:
                self._calls.clear()
                self._made_for(torch)
            try:
                key = self._read(*tensors)
            except Exception:
                return  # not PyTorch's, or without plain memory
            if key is None:
                return
            given = views[: len(tensors)]
            residues = self._residues(*(view.pointer for view in given))
            made = () if self._given else views[self._inputs :]
            if any(view.pointer % self._period for view in made):
                return
            first: Any = tensors[0]
            kept = Kept(
                key,
                residues,
                tuple(view.bytes for view in views),
                tuple(
                    (view.shape, view.strides, getattr(torch, LIBRARY_NAMES[view.element]))
                    for view in made
                ),
                first.device,
                index,
                plan,
                arenas,
                None if plan is None else Packing.of(plan, len(views), index),
            )
            self._calls[key, residues] = kept
            if len(self._calls) > CALLS_KEPT:
                self._calls.pop(next(iter(self._calls)))

    def forget(self) -> None:
        """Keep no call; those under way hold what they use."""
        with self._lock:
            self._calls.clear()
            self._forget()
            if self._compiled is not None:
                self._compiled.forget()


def _parameter(torch: Any) -> Any:
    """The one other class of PyTorch's whose tensors mean what their memory holds."""
    found = getattr(getattr(torch, "nn", None), "Parameter", None)
    return torch.Tensor if found is None else found


_TEXT = """
def make(
    T, P, empty, calls, nothing, guard, stream_of, current, period, far, order, keep_until
):
    last = nothing
    mask = period - 1
    zero = ({zeros},)

    def read({tensors}):
        if {foreign}:
            return None
        return ({shown},)

    def residues({pointers}):
        return {residues}

    def find({tensors}):
        nonlocal last
        key = read({tensors})
        kept = None if key is None else calls.get((key, residues({addresses})))
        if kept is not None:
            if guard is not None and kept.guards_left:
                kept.guards_left -= 1
                made = guard(({tensors},))
                # It never passes a tensor that is given twice.
                if made({tensors}):
                    kept.check = made
            last = kept
        return kept

    def apart(places, sizes):
        {apart}

    def run(inputs{outputs}, at=None):
        try:
            ({inputs},) = inputs{take}
            kept = last
            if {unlike}:
                kept = find({tensors})
                if kept is None:
                    return None
            elsewhere = at is not None and at != stream_of(kept.index){allocate}
            places = ({every},)
            one = None
            if kept.packing is not None:
                try:
                    one = kept.free.pop()
                except IndexError:
                    one = kept.packing.packed()
            if one is None or one.pointers != places:
                if residues({given}) != kept.residues:
                    if one is not None:
                        kept.free.append(one)
                        one = None
                    kept = find({tensors})
                    if kept is None:
                        return None
                if not apart(places, kept.sizes):
                    if one is not None:
                        kept.free.append(one)
                    return None
                if one is not None:
                    one.move(places)
        except Exception:
            return None
        if one is None:
            if kept.plan is not None:
                stream = at if elsewhere else stream_of(kept.index)
                with current(kept.index):
                    if elsewhere:
                        order(stream_of(kept.index), at)
                    kept.plan.launch(places, stream, kept.index, kept.arenas)
                if elsewhere:
                    keep_until(({every_tensor},), at)
            return {result}
        if elsewhere:
            stream = at
            with current(kept.index):
                order(stream_of(kept.index), at)
        else:
            stream = stream_of(kept.index)
        if stream != one.stream:
            one.config.stream = stream
            one.stream = stream
        status = one.launch(*one.arguments)
        if status:
            status = one.retried(status)
        kept.free.append(one)
        if status:
            one.failed(status)
        if elsewhere:
            keep_until(({every_tensor},), at)
        return {result}

    def forget():
        nonlocal last
        last = nothing

    return run, read, residues, find, forget
"""

_SHOWN = "{0}.shape, {0}.dtype, {0}.device, {0}.is_contiguous(), {0}.requires_grad, {0}.is_neg()"

_TERMS = 64
"""Pairs of tensors that are compared in a text of their own."""


@cache
def _functions(inputs: int, outputs: int, given: bool, powers: bool, guards: bool) -> Any:
    """The pattern for a number of tensors: see ``Repeated``.

    ``powers`` says that the period is a power of two, ``guards`` that there is ``guard``.
    """
    first = [f"a{i}" for i in range(inputs)]
    rest = [f"b{i}" for i in range(outputs)]
    tensors = [*first, *rest] if given else first
    pointers = [f"p{i}" for i in range(len(tensors))]
    lines = {
        "tensors": ", ".join(tensors),
        "inputs": ", ".join(first),
        "zeros": ", ".join("0" for _ in tensors),
        # A subclass may mean anything by its attributes.
        "foreign": " or ".join(f"type({x}) is not T and type({x}) is not P" for x in tensors),
        "shown": ", ".join(_SHOWN.format(x) for x in tensors),
        "pointers": ", ".join(pointers),
        "addresses": ", ".join(f"{x}.data_ptr()" for x in tensors),
        "residues": f"({', '.join(f'{p} % period' for p in pointers)},)",
        "apart": _apart(inputs, outputs),
        "outputs": ", outputs" if given else "",
        "take": "",
        "allocate": "",
        "unlike": f"not kept.check({', '.join(tensors)})",
        "every": ", ".join(f"{x}.data_ptr()" for x in (*first, *rest)),
        "every_tensor": ", ".join([*first, *rest]),
        "given": "*places" if given else f"*places[:{inputs}]",
        "result": "outputs" if given else f"[{', '.join(rest)}]",
    }
    if powers:
        union = " | ".join(pointers)
        lines["residues"] = f"{lines['residues']} if ({union}) & mask else zero"
    if not guards:
        lines["unlike"] = f"{lines['foreign']} or ({lines['shown']},) != kept.key"
    inside = "\n            "
    if given and rest:
        lines["take"] = f"{inside}({', '.join(rest)},) = outputs"
    elif given:
        lines["take"] = f"{inside}() = outputs"
    else:
        made = [f"{', '.join(f'(s{i}, t{i}, d{i})' for i in range(outputs))}, = kept.fresh"]
        # What is on another stream has its memory from there.
        made += ["if elsewhere:", "    return None"]
        made += [
            f"b{i} = empty(s{i}, t{i}, dtype=d{i}, device=kept.device)" for i in range(outputs)
        ]
        odd = " or ".join(f"type({x}) is not T or {x}.data_ptr() % period" for x in rest)
        made += [f"if {odd}:", "    return None"]
        lines["allocate"] = "".join(inside + line for line in made)
    scope: dict[str, Any] = {}
    exec(_TEXT.format(**lines), scope)
    return scope.pop("make")


def _apart(inputs: int, outputs: int) -> str:
    """Whether no output overlaps another tensor, as statements."""
    count = inputs + outputs
    pairs = [(i, j) for i in range(inputs, count) for j in range(i)]
    if not pairs or len(pairs) > _TERMS:
        return f"return far(places, sizes, {inputs})"
    terms = (f"p{i} < p{j} + s{j} and p{j} < p{i} + s{i}" for i, j in pairs)
    p, s = (", ".join(f"{letter}{i}" for i in range(count)) for letter in "ps")
    return f"{p}, = places; {s}, = sizes; return not ({' or '.join(terms)})"


def _far(places: Sequence[int], sizes: Sequence[int], inputs: int) -> bool:
    """Whether no output overlaps another tensor."""
    return not any(
        places[i] < places[j] + sizes[j] and places[j] < places[i] + sizes[i]
        for i in range(inputs, len(places))
        for j in range(i)
    )
