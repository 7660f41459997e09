"""A module as its schedules compute it: their forms of regions in the regions' places."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp


def with_forms(module: ModuleOp) -> Iterator[tuple[str, ModuleOp]]:
    """For each schedule with a form of its region: what it is, and a copy that has the form there.

    Of equal forms of a region only the first has its copy.  ``module`` stays as it is.
    """
    if not any(op.name == "plan.schedule" for op in module.ops):
        return
    from polyc.dialects.plan import ScheduleOp
    from polyc.dialects.region import KernelOp

    ops = list(module.ops)
    for kernel in (op for op in ops if isinstance(op, KernelOp)):
        seen: set[str] = set()
        for plan in (op for op in ops if isinstance(op, ScheduleOp)):
            form = plan.form
            if form is None or form.sym_name != kernel.sym_name:
                continue
            if (text := str(form)) in seen:
                continue
            seen.add(text)
            copy = module.clone()
            old = list(copy.ops)[ops.index(kernel)]
            copy.body.block.insert_op_before(form.clone(), old)
            old.detach()
            yield f"variant {plan.variant.data!r} of @{kernel.sym_name.data}", copy
