"""Functions of a graph's nodes, without recursion: graphs are deeper than Python's calls may be."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from xdsl.ir import Operation, SSAValue

Node = TypeVar("Node", bound=Hashable)
Result = TypeVar("Result")


def computed(
    root: Node,
    needs: Callable[[Node], Iterable[Node]],
    result: Callable[[Node, Sequence[Result]], Result],
    known: dict[Node, Result] | None = None,
) -> Result:
    """``result`` of ``root``, from the results of what it needs, in the order of these.

    A node is computed once, however many need it; ``known`` has results, and learns more.  Raises
    what ``needs`` and ``result`` raise; a cycle is an AssertionError.
    """
    done = {} if known is None else known
    stack = [root]
    open_: dict[Node, tuple[Node, ...]] = {}
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        wanted = open_.get(node)
        if wanted is None:
            wanted = open_[node] = tuple(needs(node))
            missing = [n for n in reversed(wanted) if n not in done]
            assert not any(n in open_ for n in missing), "a cycle"
            if missing:
                stack += missing
                continue
        stack.pop()
        done[node] = result(node, [done[n] for n in wanted])
    return done[root]


def reached(roots: Iterable[Node], needs: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """``roots`` and all that they need, each once, after what it needs itself.

    Raises what ``needs`` raises; a cycle is an AssertionError.
    """
    found: dict[Node, None] = {}
    open_: set[Node] = set()
    for root in roots:
        if root in found:
            continue
        open_.add(root)
        stack = [(root, iter(needs(root)))]
        while stack:
            node, rest = stack[-1]
            for one in rest:
                if one not in found:
                    assert one not in open_, "a cycle"
                    open_.add(one)
                    stack.append((one, iter(needs(one))))
                    break
            else:
                stack.pop()
                found[node] = None
    return list(found)


def operands_of(value: SSAValue) -> Sequence[SSAValue]:
    """The operands of the op that makes a value; none of a block's argument."""
    return value.owner.operands if isinstance(value.owner, Operation) else ()
