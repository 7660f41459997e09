"""``frontend.attention`` as PyTorch users write it.

``dot_product`` is ``scaled_dot_product_attention``, or, where scores have a cap, which that lacks,
its ops; ``flexible`` is ``flex_attention``, which is to be compiled.  Both take q, k and v of three
axes or four, and at most one mask.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import i1

from polyc.dialects import frontend
from polyc.dialects.frontend import tensor_of

Run = Callable[..., Any]
Attend = Callable[[Any, frontend.AttentionOp, Mapping[str, int]], Run]
"""PyTorch, an attention and the sizes, to a function of q, k, v and masks."""


def _is_grouped(op: frontend.AttentionOp, sizes: Mapping[str, int]) -> bool:
    queries, keys = tensor_of(op.q).dims[-3], tensor_of(op.k).dims[-3]
    return queries.evaluate(sizes) != keys.evaluate(sizes)


def _batched(run: Run) -> Run:
    """``run`` of q, k and v of four axes, also for three."""

    def both(q: Any, k: Any, v: Any, *masks: Any) -> Any:
        return run(q, k, v, *masks) if q.dim() == 4 else run(q[None], k[None], v[None], *masks)[0]

    return both


def dot_product(torch: Any, op: frontend.AttentionOp, sizes: Mapping[str, int]) -> Run:
    """By ``scaled_dot_product_attention``, whose kernel PyTorch chooses."""
    if op.cap is not None:
        return _by_ops(torch, op)
    causal = op.causal is not None
    window = _window(torch, op, sizes)
    how = {"scale": op.scale, "enable_gqa": _is_grouped(op, sizes)}
    holds = [tensor_of(mask).element_type == i1 for mask in op.masks]
    attend = torch.nn.functional.scaled_dot_product_attention

    def run(q: Any, k: Any, v: Any, mask: Any = window) -> Any:
        if mask is not None and mask is not window:
            mask = mask.expand(*mask.shape[:-2], q.shape[-2], k.shape[-2])
            mask = mask.bool() if holds[0] else mask.to(q.dtype)
            if causal and holds[0]:
                mask = mask.tril()
            elif causal:
                # PyTorch takes either; a user adds both up.
                mask = mask + torch.full_like(mask, float("-inf")).triu(1)
        only = causal and mask is None
        return attend(q, k, v, attn_mask=mask, is_causal=only, **how)

    return _batched(run)


def _window(torch: Any, op: frontend.AttentionOp, sizes: Mapping[str, int]) -> Any:
    """Which keys a query sees, where these are neither all nor the earlier ones alone."""
    offset = op.offset.evaluate(sizes)
    if op.window_attr is None and not offset:
        return None
    left, right = (None if x is None else x.evaluate(sizes) for x in op.span)
    rows, columns = (tensor_of(x).dims[-2].evaluate(sizes) for x in (op.q, op.k))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    after = torch.arange(columns, device=device) - torch.arange(rows, device=device)[:, None]
    after = after - offset
    seen = torch.ones_like(after, dtype=torch.bool)
    if left is not None:
        seen &= after >= -left
    return seen if right is None else seen & (after <= right)


def _by_ops(torch: Any, op: frontend.AttentionOp) -> Run:
    """Products, the cap, a softmax and products; the queries that share keys are rows of one."""
    cap, causal = op.cap, op.causal is not None
    assert cap is not None and not op.masks, "a cap and a mask in one"

    def run(q: Any, k: Any, v: Any) -> Any:
        *batch, heads, rows, width = q.shape
        keys, columns = k.shape[-3:-1]
        scale = width**-0.5 if op.scale is None else op.scale
        folded = q.reshape(*batch, keys, heads // keys * rows, width)
        scores = cap * torch.tanh(torch.matmul(folded, k.mT) * (scale / cap))
        if causal:
            later = torch.ones(rows, columns, dtype=torch.bool, device=q.device).triu(1)
            apart = scores.reshape(*batch, keys, heads // keys, rows, columns)
            scores = apart.masked_fill(later, float("-inf")).reshape(scores.shape)
        weighted = torch.matmul(torch.softmax(scores, -1), v)
        return weighted.reshape(*batch, heads, rows, v.shape[-1])

    return _batched(run)


def flexible(torch: Any, op: frontend.AttentionOp, sizes: Mapping[str, int]) -> Run:
    """By ``flex_attention``, with a causal mask as blocks, made here, and a cap as a score's."""
    assert not op.masks, "a mask is a function of the score; write it as one"
    cap = op.cap

    def capped(score: Any, b: Any, h: Any, m: Any, n: Any) -> Any:
        return cap * torch.tanh(score / cap)

    block = blocks(torch, op, sizes)
    attend = flex(torch)
    how = {"scale": op.scale, "enable_gqa": _is_grouped(op, sizes), "block_mask": block}

    def run(q: Any, k: Any, v: Any) -> Any:
        return attend(q, k, v, score_mod=None if cap is None else capped, **how)

    return _batched(run)


def flex(torch: Any) -> Run:
    """PyTorch's ``flex_attention``."""
    del torch  # It has been imported.
    return importlib.import_module("torch.nn.attention.flex_attention").flex_attention


def blocks(torch: Any, op: frontend.AttentionOp, sizes: Mapping[str, int]) -> Any:
    """The blocks of scores that a causal attention sees; None where it is not causal."""
    if op.causal is None:
        return None
    rows, columns = (tensor_of(x).dims[-2].evaluate(sizes) for x in (op.q, op.k))
    module = importlib.import_module("torch.nn.attention.flex_attention")

    def before(b: Any, h: Any, m: Any, n: Any) -> Any:
        return m >= n

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return module.create_block_mask(before, None, None, rows, columns, device=device)


def limited(torch: Any, run: Run, backend: str) -> Run:
    """``run`` with ``scaled_dot_product_attention`` by one of its kernels, by PyTorch's name."""
    module = importlib.import_module("torch.nn.attention")
    kind = getattr(module.SDPBackend, backend)

    def chosen(*inputs: Any) -> Any:
        with module.sdpa_kernel([kind]):
            return run(*inputs)

    return chosen
