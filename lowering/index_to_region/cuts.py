"""``index-to-region``: where a kernel that would hold too much is cut in two.

A long graph of elementwise ops is legal, and cheapest, as one kernel.  The compilers behind polyc
are not linear in the size of a kernel, and registers hold only so many values, so a kernel takes
``LIMIT`` and no more.  Beyond it the value that the most of the kernel is behind is stored, the
earliest in the program first: which one depends on the graph alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Operation, SSAValue

from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.contractions import Products
from polyc.lowering.index_to_region.cost import LIMIT, REDUCTION
from polyc.lowering.index_to_region.forms import Form, Forms, Key, equal_casts
from polyc.lowering.index_to_region.fusion import Composer
from polyc.lowering.index_to_region.kernels import (
    Facts,
    Fuse,
    Kernel,
    KernelKey,
    Kernels,
    NotApart,
    Part,
    Settled,
    Split,
)
from polyc.lowering.index_to_region.nearby import FEW, Standing, part_of
from polyc.lowering.index_to_region.reductions import (
    DEPTH,
    Reductions,
    computed_factors,
)
from polyc.rewriting.notes import Note

EPILOGUE = 3
"""What an elementwise op is beside a contraction: each thread has many of its elements.

Not one that makes a factor, as attention's queries: it is done with before the products begin."""

SIZE = f"with it the kernel that wants it would hold more than {LIMIT} ops"
"""Why a value is stored for the size of a kernel."""

NESTED = 1
"""Reductions inside of each other's steps, each computed again in every one, beside the outermost:
the steps of one more would be the product of three sizes."""

PIXELS_FIRST = (
    "its axes lie in the order [{}], pixels outside and channels inside, as convolutions read them"
)
"""Why a value has another order of axes in memory."""

PIXELS_PAY = (
    "its pixels lie outside and its channels inside, with all of its sizes: the kernels that this "
    "changes take {:.3g} us, and {:.3g} us where axes lie as the graph has them"
)
"""Why images have their pixels outside that no convolution asks to."""

GIVEN = (
    "its axes lie as the graph has them: the kernels that this changes take {:.3g} us, and {:.3g} "
    "us where pixels lie first"
)
"""Why one around a convolution has not."""

ALONE = 0.9
"""Of the time, what a kernel more takes at most that computes what follows a convolution: a block
that goes on to another tile computes that while the next one is loaded."""

MOST_ORDERS = 24
"""Values around convolutions of a graph that are tried in another order, each by itself."""

ROUNDS = 8
"""How often a graph is composed at most: a cut may make values be wanted twice elsewhere."""


@dataclass(frozen=True)
class Weight:
    """What a part of a kernel holds."""

    ops: int = 0
    reductions: int = 0
    contractions: int = 0
    before: int = 0
    """Of ``ops`` those that contractions are made of, and that are made of none."""

    @property
    def total(self) -> int:
        reduced = (self.reductions + self.contractions) * REDUCTION
        beside = (self.ops - self.before) * (EPILOGUE if self.contractions else 1)
        return self.before + beside + reduced


def weight_of(forms: Iterable[tuple[Key, Form | None]]) -> Weight:
    """The weight of some keys of a kernel, operands first; a key without a form is read."""
    ops = reductions = contractions = before = 0
    forms = list(forms)
    first = _before_products(forms)
    for key, form in forms:
        if key in first:
            before += _ops(form)
        if form is not None and _reduces(key, form):
            if _contracts(key, form):
                contractions += 1
            else:
                reductions += 1
            ops += len(form.choices)
        else:
            ops += _ops(form)
    return Weight(ops, reductions, contractions, before)


def _before_products(forms: Sequence[tuple[Key, Form | None]]) -> set[Key]:
    """The elementwise keys that products sum, and that are made of no product."""
    products = [key for key, form in forms if _contracts(key, form)]
    after, first = set(products), set[Key]()
    for key, form in forms if products else ():
        if form is not None and not after.isdisjoint(form.operands):
            after.add(key)
    for key, form in reversed(forms) if products else ():
        if form is None or (key in after and not _contracts(key, form)):
            continue
        if key in first or _contracts(key, form):
            first.update(operand for operand in form.operands if operand not in after)
    return {key for key, form in forms if key in first and not _reduces(key, form)}


def _alone(key: Key, form: Form) -> int:
    """What a key weighs where there are no products; -1 where it is one."""
    if _contracts(key, form):
        return -1
    return len(form.choices) + REDUCTION if _reduces(key, form) else _ops(form)


def _ops(form: Form | None) -> int:
    return 1 if form is None else (not form.same) + len(form.choices)


@dataclass
class Cutter:
    """Finds the values of one kernel to store; ``reads`` are those that lie in memory already.

    ``below`` has, for each key, the keys of the kernel that it takes, itself included, with cuts
    taken into account.
    """

    forms: Forms
    reads: Mapping[SSAValue, None]
    chosen: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    below: dict[Key, dict[Key, Form | None]] = field(
        default_factory=dict["Key", "dict[Key, Form | None]"]
    )
    nest: dict[Key, int] = field(default_factory=dict["Key", int])
    """Of each reduction, how many are computed in each other's steps inside of it."""
    own: dict[Key, int] = field(default_factory=dict["Key", int])
    """What a key that has a form weighs by itself; -1 is a sum of products, beside which others
    weigh more."""

    def run(self, roots: Sequence[Key]) -> dict[SSAValue, str]:
        """The values to store so that the kernel of ``roots`` is not too much, with reasons."""
        held = self._held(roots)
        weight = weight_of(held.items())
        if weight.total > LIMIT or weight.reductions + weight.contractions > NESTED + 1:
            for key, form in held.items():
                self.below[key] = self._bounded(() if form is None else form.operands, key, form)
            self._bounded(roots, None, None)
        return self.chosen

    def _bounded(
        self, operands: Sequence[Key], key: Key | None, form: Form | None
    ) -> dict[Key, Form | None]:
        """What ``key`` takes through ``operands``, with more values chosen until it is not much."""
        while True:
            held: dict[Key, Form | None] = {}
            for operand in operands:
                held |= {operand: None} if operand[0] in self.chosen else self.below[operand]
            if any(f is not None and k[0] in self.chosen for k, f in held.items()):
                held = self._held(operands)
            whole = held if key is None else {**held, key: form}
            if key is not None and form is not None and (deep := self._deep(key, form, held)):
                self.chosen[deep] = DEPTH
                continue
            if self._weight(whole) <= LIMIT:
                return whole
            value = self._heaviest(held, operands)
            if value is None:
                return whole
            self.chosen[value] = SIZE

    def _weight(self, held: Mapping[Key, Form | None]) -> int:
        """``weight_of`` in total; a key is in what many others take, and is looked at once."""
        own, total = self.own, 0
        for key, form in held.items():
            if form is None:
                total += 1
                continue
            if (one := own.get(key)) is None:
                one = own[key] = _alone(key, form)
            if one < 0:
                return weight_of(held.items()).total
            total += one
        return total

    def _deep(self, key: Key, form: Form, held: Mapping[Key, Form | None]) -> SSAValue | None:
        """A reduction that would be computed in the steps of ``key``, and holds others itself."""
        if not _reduces(key, form):
            return None
        steps = {axis.label for axis in form.fresh}
        inside = [k for k, f in held.items() if _reduces(k, f) and steps & set(k[1].labels)]
        self.nest[key] = max((self.nest[k] + 1 for k in inside), default=0)
        if self.nest[key] <= NESTED:
            return None
        return next(k[0] for k in inside if self.nest[k] >= NESTED)

    def _held(self, roots: Sequence[Key]) -> dict[Key, Form | None]:
        """What ``roots`` take, with all that is chosen so far read: operands first."""
        return self.forms.held(roots, lambda v: v in self.chosen or v in self.reads)

    def _heaviest(self, held: Mapping[Key, Form | None], roots: Sequence[Key]) -> SSAValue | None:
        """The value that, stored, takes the most out of ``held``; None where none takes anything.

        What it takes out are the keys to which all ways from ``roots`` lead through it: those
        that it dominates.
        """
        order = list(held)  # operands first, or a user would not know yet what is above it
        place = {key: i for i, key in enumerate(order)}
        top = len(order)
        above = [-1] * top  # the immediate dominator; ``top`` is that of the roots
        for root in roots:
            above[place[root]] = top
        for i in range(top - 1, -1, -1):
            if above[i] < 0:
                above[i] = top
            form = held[order[i]]
            if form is None or order[i][0] in self.chosen:
                continue
            for operand in form.operands:
                j = place[operand]
                above[j] = i if above[j] < 0 else _meet(above, above[j], i)
        inside = [REDUCTION if _reduces(key, held[key]) else _ops(held[key]) for key in order]
        for i in range(top):
            if above[i] < top:
                inside[above[i]] += inside[i]
        best: SSAValue | None = None
        most = 1  # a read takes the place of what is stored
        for i, key in enumerate(order):
            if inside[i] > most and held[key] is not None and self._may_be_stored(key[0]):
                best, most = key[0], inside[i]
        return best

    def _may_be_stored(self, value: SSAValue) -> bool:
        """Whether a value does not lie in memory yet, and is no larger than what it is made of."""
        return value not in self.chosen and value not in self.reads and cost.is_small(value)


def _reduces(key: Key, form: Form | None) -> bool:
    """Whether a key is made by a reduction in this kernel."""
    return form is not None and not form.same and isinstance(key[0].owner, tiny.ReduceOp)


def _contracts(key: Key, form: Form | None) -> bool:
    """Whether a key is made by a sum of products in this kernel."""
    return _reduces(key, form) and cost.is_contraction(key[0])


def _meet(above: Sequence[int], a: int, b: int) -> int:
    """The nearest key that dominates two."""
    while a != b:
        if a < b:
            a = above[a]
        else:
            b = above[b]
    return a


@dataclass(frozen=True)
class Built:
    """What will become of kernels, where the cost decides which there are.

    ``contracts`` says whether the products of one run on tensor cores, ``walks`` whether it runs as
    loops, ``seconds`` how long it takes; ``apart`` says why one with a softmax is no attention, and
    ``alike`` gives a key of those that differ in names alone.
    """

    contracts: Callable[[Kernels], Callable[[Kernel], bool]]
    walks: Callable[[Kernels], Callable[[Kernel], bool]]
    seconds: Callable[[Kernels], Callable[[Kernel], float]]
    apart: Callable[[Kernels], Callable[[Kernel], str]]
    alike: Callable[[Kernels], Callable[[Kernel], Hashable]]


def composed(
    graph: tiny.GraphOp, fuse: Fuse, split: Split, built: Built
) -> tuple[Kernels, list[Note]]:
    """The kernels of a graph, and what is to be said where one of them was cut.

    Raises PolycError where a value has no form in a kernel.
    """
    if fuse == "cost" and split == "none":
        composing = Composing(graph, fuse, split)
        settling = Settling(composing, built)
        settled, products = settling.cheapest(Products(graph, equal_casts(graph)))
        parted = [_parted(value, why) for value, why in products.parted.items()]
        parted += [_copied(value, why) for value, why in products.copied.items()]
        made: dict[frozenset[SSAValue], tuple[Kernels, int]] = {}

        def recompose(
            stored: Mapping[SSAValue, str], near: Kernels | None = None, given: Settled = settled
        ) -> Kernels:
            if (key := frozenset(stored)) not in made:
                made[key] = composing.limited(given.also(stored), near)
            return made[key][0]

        reductions = Reductions(recompose, built.walks, built.seconds, settling.standing)
        found = recompose({})
        there = {kernel.key for kernel in found.kernels if not computed_factors(kernel)}
        reductions.tried.update(key for key in there if settling.well.get(key))
        reductions.run(found)
        found = made[frozenset(reductions.taken)]
        if composing.parted:
            found = composing.limited(settled.also(reductions.taken))
        kernels, cuts = settling.ordered(products, found, reductions.taken)
    else:
        kernels, cuts = Composing(graph, fuse, split).limited(Settled())
        parted = []
    return kernels, [*parted, *([_said(graph, cuts)] if cuts else [])]


@dataclass
class Composing:
    """The kernels of one graph for several choices of what is stored.

    Most kernels are the same ones from choice to choice, and what is known of one is kept.
    """

    graph: tiny.GraphOp
    fuse: Fuse
    split: Split
    forms: dict[Key, Form] = field(default_factory=dict[Key, Form])
    chosen: dict[KernelKey, dict[SSAValue, str]] = field(
        default_factory=dict[KernelKey, dict[SSAValue, str]]
    )
    """What is cut out of each kernel."""
    parted: bool = False
    """Whether some kernels were composed beside others that stayed."""

    def __post_init__(self) -> None:
        self.facts = Facts.of(self.graph)
        self.places = {op: place for place, op in enumerate(self.facts.ops)}

    def kernels(self, settled: Settled, near: Kernels | None = None) -> Kernels:
        """The kernels, however much they are; ``near`` are those of something else that is settled,
        of which those stay that have nothing to do with what differs, nor with what comes of it."""
        changed: set[SSAValue] = set()
        while near is not None and (part := part_of(near, settled, self.places, changed)):
            try:
                found = self._composed(settled, part)
            except NotApart as apart:
                if changed.issuperset(apart.values):
                    break
                changed.update(apart.values)
            else:
                self.parted = True
                return found
        return self._composed(settled)

    def _composed(self, settled: Settled, part: Part | None = None) -> Kernels:
        graph, facts = self.graph, self.facts
        return Composer(graph, self.fuse, self.split, settled, self.forms, facts, part).run()

    def limited(self, settled: Settled, near: Kernels | None = None) -> tuple[Kernels, int]:
        """The kernels, none of them too much, and how many values are cut for that."""
        cuts = {} if near is None else self._still_cut(settled, near)
        kernels = self.kernels(settled.also(cuts), near)
        for _ in range(ROUNDS):
            more: dict[SSAValue, str] = {}
            for kernel in kernels.kernels:
                more |= self._cut_of(kernel)
            more = {value: why for value, why in more.items() if value not in cuts}
            if not more:
                break
            cuts |= more
            kernels = self.kernels(settled.also(cuts), near)
        return kernels, len(cuts)

    def _still_cut(self, settled: Settled, near: Kernels) -> dict[SSAValue, str]:
        """What is cut out of kernels that were too much, where those on both sides of it stay as
        they are: others may be less, or too much elsewhere."""
        cuts = {v: why for v, why in near.settled.cuts.items() if why in (SIZE, DEPTH)}
        before = {v for v in near.settled.cuts if v not in cuts}
        changed = before.symmetric_difference(v for v in settled.cuts if v not in cuts)
        for kernel in near.kernels:
            beside = {*kernel.reads, *(root.value for root in kernel.roots)}
            if not changed.isdisjoint(beside) or not changed.isdisjoint(kernel.computed):
                for value in beside:
                    cuts.pop(value, None)
        return cuts

    def _cut_of(self, kernel: Kernel) -> Mapping[SSAValue, str]:
        if (key := kernel.key) not in self.chosen:
            self.chosen[key] = Cutter(kernel.forms, kernel.reads).run(key.roots)
        return self.chosen[key]


@dataclass
class Settling:
    """Finds what is stored around the products of a graph.

    ``well`` says of kernels whether their products run on tensor cores, ``times`` how long they
    take.
    """

    composing: Composing
    built: Built
    well: dict[KernelKey, bool] = field(default_factory=dict[KernelKey, bool])
    times: dict[KernelKey, float] = field(default_factory=dict[KernelKey, float])

    def __post_init__(self) -> None:
        self.standing = Standing(self.built.alike)

    def cheapest(self, products: Products) -> tuple[Settled, Products]:
        """What is stored so that all products run well that can, in the least time, and for which.

        An attention whose scores others want too may stay one kernel, and the scores be computed
        twice, or the two products be kernels of their own, and the scores lie in memory.  A
        product of each channel by itself may end a kernel where it lies, as all of them do or none,
        or have its pixels outside, as windows slide: those that are alike and stand between such
        ones are tried together, once one of them has gained by it.
        """
        found = self._settled(products)

        def taken(other: Products) -> bool:
            """Whether other products take less time, which stay then."""
            nonlocal products, found
            one = self._settled(other, found[1])
            if gains := self._gains(found[1], one[1]):
                products, found = other, one
            return gains

        for pair in products.shared():
            if pair in products.shared():
                taken(products.apart(pair))
        if each := products.by_threads():
            taken(products.ending(*each))
        for first, *rest in self._alike(products.depthwise(), found[1]):
            if taken(products.plain(first)) and rest and not taken(products.plain(*rest)):
                for value in rest:
                    taken(products.plain(value))
        return found[0], products

    def _alike(self, values: Iterable[SSAValue], kernels: Kernels) -> list[list[SSAValue]]:
        """Values in groups of those that alike kernels compute, between such ones."""
        holders: dict[SSAValue, list[Kernel]] = {value: [] for value in values}
        for kernel in kernels.kernels:
            for value in kernel.computed:
                if value in holders:
                    holders[value].append(kernel)
        groups: dict[Hashable, list[SSAValue]] = {}
        for value, some in holders.items():
            places = [list(kernel.computed).index(value) for kernel in some]
            around = [self.standing.of(kernel, kernels) for kernel in some]
            groups.setdefault((tuple(places), tuple(around)), []).append(value)
        return list(groups.values())

    def ordered(
        self, products: Products, kernels: tuple[Kernels, int], stored: Mapping[SSAValue, str]
    ) -> tuple[Kernels, int]:
        """The same kernels with the number of cuts, or others: with values around convolutions in
        the order of the graph, and inputs that products read across copied, what takes the least
        time.  ``stored`` is what is stored beside.
        """
        said: dict[SSAValue, str] = {}
        for group in _images(products, kernels[0]):
            one = products.pixels(group)
            other = self._beside(one, stored, kernels[0])
            before, after = self._apart(kernels[0], other[0])
            if after < before:
                products, kernels = one, other
                said |= dict.fromkeys(group, PIXELS_PAY.format(after * 1e6, before * 1e6))
        tried = [(value, Products.given) for value in products.turned_ends()]
        tried += [(value, Products.plain_as_given) for value in products.bare()]
        for value in products.read_across():
            tried += [(value, Products.plain), (value, Products.plain_as_given)]
        tried += [(value, Products.lone) for value in products.whole()]
        for value, other_way in tried[:MOST_ORDERS]:
            one = other_way(products, value)
            other = self._beside(one, stored, kernels[0])
            before, after = self._apart(kernels[0], other[0])
            if after < before * (ALONE if other_way is Products.lone else 1):
                said |= {
                    end: GIVEN.format(after * 1e6, before * 1e6)
                    for end in one.as_given - products.as_given
                }
                products, kernels = one, other
        if self.composing.parted:
            kernels = self.composing.limited(products.settled().also(stored))
        found = kernels[0].stored
        for value in products.turned():
            if value in found and (order := found[value].order) != tuple(range(len(order))):
                said[value] = said.get(value) or PIXELS_FIRST.format(", ".join(map(str, order)))
        for value, why in said.items():
            if value in found:
                one = found[value]
                found[value] = replace(one, reason=f"{one.reason}; {why}")
        return kernels

    def _beside(
        self, products: Products, stored: Mapping[SSAValue, str], near: Kernels
    ) -> tuple[Kernels, int]:
        """The kernels of products as they are by now where some more is stored."""
        if len(near.kernels) <= FEW:
            settled, _ = self._settled(products)
        else:
            settled = products.settled()
        return self.composing.limited(settled.also(stored), near)

    def _settled(self, products: Products, near: Kernels | None = None) -> tuple[Settled, Kernels]:
        """What is stored once all products run well that can, and the kernels then; ``near`` are
        those of products that differ in little."""
        there = set(() if near is None else near.kernels)
        while True:
            settled = products.settled()
            kernels = self.composing.kernels(settled, near)
            contracts = self.built.contracts(kernels)

            def taken(kernel: Kernel, ask: Callable[[Kernel], bool] = contracts) -> bool:
                if (key := kernel.key) not in self.well:
                    self.well[key] = ask(kernel)
                return self.well[key]

            fresh = [kernel for kernel in kernels.kernels if kernel not in there]
            if not products.store_more(fresh, taken, self.built.apart(kernels)):
                return settled, kernels

    def _gains(self, kernels: Kernels, other: Kernels) -> bool:
        """Whether other kernels take less time than some."""
        before, after = self._apart(kernels, other)
        return after < before

    def _apart(self, kernels: Kernels, other: Kernels) -> tuple[float, float]:
        """The seconds of those kernels of two partitions that are not in both."""
        both = set(kernels.kernels).intersection(other.kernels)
        keys, others = ({k.key for k in one.kernels if k not in both} for one in (kernels, other))
        return self._total(kernels, keys - others), self._total(other, others - keys)

    def _total(self, kernels: Kernels, wanted: Collection[KernelKey]) -> float:
        seconds = self.built.seconds(kernels)
        for kernel in kernels.kernels:
            if (key := kernel.key) in wanted and key not in self.times:
                self.times[key] = seconds(kernel)
        return sum(self.times[key] for key in wanted)


def _images(products: Products, kernels: Kernels) -> list[list[SSAValue]]:
    """What lies between kernels as images of convolutions do, channels first, by its sizes.

    What is read in another shape lies as it is.  Images of one size are what residuals, norms and
    products hand on, and one of them alone gains nothing from another order.
    """
    sizes = products.images()
    viewed = set(kernels.views.values())
    found: dict[tuple[Dim, ...], list[SSAValue]] = {}
    for value, stored in kernels.stored.items():
        dims = tiny.tensor_of(value).dims
        if dims in sizes and value not in viewed and stored.order == tuple(range(len(dims))):
            found.setdefault(dims, []).append(value)
    return [group for dims, group in found.items() if _is_image(dims)]


def _is_image(dims: Sequence[Dim]) -> bool:
    """Whether an image's channels and its pixels are several."""
    pixels = (size.constant() != 1 for size in dims[2:])
    return len(dims) > 2 and dims[1].constant() != 1 and any(pixels)


def _parted(product: SSAValue, why: str) -> Note:
    """That the weights of a softmax between two products go through memory."""
    assert isinstance(product.owner, Operation)
    text = f"a product by a softmax's weights is no one kernel with the product below these: {why}"
    return Note("NotStreamed", text, product.owner)


def _copied(product: SSAValue, why: str) -> Note:
    """That what a gather gives an attention goes through memory."""
    assert isinstance(product.owner, Operation)
    text = f"what a gather reads for an attention is stored, and then read again: {why}"
    return Note("GatherStored", text, product.owner)


def _said(graph: tiny.GraphOp, cuts: int) -> Note:
    values = "one value is" if cuts == 1 else f"{cuts} values are"
    text = (
        f"{values} stored in @{graph.sym_name.data} that would be fused otherwise: a kernel holds "
        f"{LIMIT} ops, where a reduction counts as {REDUCTION}, and one reduction in the steps of "
        "another"
    )
    return Note("KernelCut", text, graph)
