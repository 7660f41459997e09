"""``gpu-bind-ifs``: what a branch becomes, which conditions it may have, and what refuses it."""

from __future__ import annotations

import pytest
from xdsl.dialects import scf
from xdsl.ir import Operation

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.guards import acting, literals
from polyc.test.support.gpu_programs import TENSOR, pipeline
from polyc.test.support.gpu_text import assert_refused, find, only, printed, run, unchanged

PASS = "gpu-bind-ifs"
TILE, ACC = "!gpu.shared<[64, 64], f16>", "!gpu.fragment<[64, 64], f32>"
LOAD = f"gpu.copy %A[%M, %k] to %t : {TENSOR}, {TILE}"
READ = (
    "gpu.contract %t affine_map<(m, n, k) -> (m, k)>, %t affine_map<(m, n, k) -> (k, n)> "
    f'into %acc mma "mma.sync" warp_tile <32, 32> : {TILE}, {TILE}, {ACC}'
)
CLEAR = f"%z = arith.constant 0.0 : f32\ngpu.fill %z, %acc : {ACC}"
MORE = CLEAR.replace("%z", "%y")
BEFORE = "%p = arith.cmpi slt, %M, %K : index\n    %q = arith.cmpi eq, %M, %K : index"


def body(inside: str, before: str = "", arch: str = "sm_90a") -> str:
    """A pipeline of ``inside``, which may use the conditions %p and %q."""
    return pipeline(
        copies=False, contracts=False, inside=inside, before=f"{BEFORE}\n{before}", arch=arch
    )


Held = list[tuple[str, bool]]
"""The names of conditions, and whether they hold."""


def statements(text: str) -> list[tuple[str, Held]]:
    """The statements of the pipeline after the pass, each with what holds where it runs."""
    loop = only(run(text, PASS), tile.PipelineOp)
    found: list[tuple[str, Held]] = []

    def visit(op: Operation) -> None:
        if isinstance(op, scf.IfOp):
            assert not op.results and not op.false_region.blocks
            for inner in acting(op.true_region.block):
                visit(inner)
            return
        found.append((op.name, [(str(v.name_hint), holds) for v, holds in literals(op)]))

    for op in acting(loop.body.block):
        visit(op)
    return found


P, NOT_P, Q = ("p", True), ("p", False), ("q", True)
BRANCHES: dict[str, tuple[str, list[tuple[str, Held]]]] = {
    "two statements": (
        f"scf.if %p {{ {LOAD} {READ} }}",
        [("gpu.copy", [P]), ("gpu.contract", [P])],
    ),
    "the other side": (
        f"scf.if %p {{ {LOAD} }} else {{ {READ} }}",
        [("gpu.copy", [P]), ("gpu.contract", [NOT_P])],
    ),
    "a branch in a branch": (
        f"scf.if %p {{ {LOAD} scf.if %q {{ {READ} {CLEAR} }} }}",
        [("gpu.copy", [P]), ("gpu.contract", [Q, P]), ("gpu.fill", [Q, P])],
    ),
    "an empty side": (f"scf.if %p {{ }} else {{ {READ} }}", [("gpu.contract", [NOT_P])]),
    "around a bare copy": (
        f"{LOAD} scf.if %p {{ {CLEAR} {READ} }}",
        [("gpu.copy", []), ("gpu.fill", [P]), ("gpu.contract", [P])],
    ),
}


@pytest.mark.parametrize(("inside", "wanted"), BRANCHES.values(), ids=BRANCHES)
def test_bind_if(inside: str, wanted: list[tuple[str, Held]]) -> None:
    assert statements(body(inside)) == wanted


def test_bind_if_repeats_what_a_statement_needs() -> None:
    row = "%r = affine.apply affine_map<(d0) -> (d0 + 1)> (%k)"
    second = LOAD.replace("%M, %k", "%k, %r")
    module = run(body(f"scf.if %p {{ {row} {LOAD.replace('%M', '%r')} {second} {READ} }}"), PASS)
    sizes = [len(list(op.true_region.block.ops)) for op in find(module, scf.IfOp)]
    assert sizes == [3, 3, 2], "a copy with its row, twice, and the contract alone"


def test_bind_if_keeps_together_what_a_token_ties() -> None:
    given = READ.replace('"mma.sync" warp_tile <32, 32>', '"wgmma" warp_tile <64, 64>')
    module = run(
        body(f"scf.if %p {{ {LOAD} %g = {given} -> !gpu.token {CLEAR} gpu.await %g {MORE} }}"), PASS
    )
    parts = [[o.name for o in acting(op.true_region.block)] for op in find(module, scf.IfOp)]
    assert parts == [["gpu.copy"], ["gpu.contract", "gpu.fill", "gpu.await"], ["gpu.fill"]]


@pytest.mark.parametrize(
    "text",
    [
        body(f"scf.if %p {{ {LOAD} }}\n{READ}"),
        body("scf.if %p { gpu.barrier gpu.barrier }"),
        body(READ, f"scf.if %p {{ {CLEAR} {MORE} }}"),
    ],
    ids=["a guard", "no tile op", "outside of the pipeline"],
)
def test_bind_if_leaves_alone(text: str) -> None:
    unchanged(text, PASS)


def test_bind_if_runs_once() -> None:
    once = run(body(BRANCHES["a branch in a branch"][0]), PASS)
    text = printed(once)
    assert printed(run(once, PASS)) == text


def test_merge_ifs_joins_what_was_split() -> None:
    module = run(body(f"scf.if %p {{ {LOAD} {READ} }}"), PASS)
    assert len(find(module, scf.IfOp)) == 2
    assert len(find(run(module, "gpu-merge-ifs"), scf.IfOp)) == 1


# Conditions --------------------------------------------------------------------------------------

ALIKE = {
    "a position": "%c = arith.cmpi slt, %k, %M : index",
    "an iteration's number": "%c = arith.cmpi slt, %i, %M : index",
    "the CTA's number": "%b = gpu.block_id\n%c = arith.cmpi slt, %b, %M : index",
    "an input's element": (
        f"%e = gpu.load_global %A[%M, %k : index, index] : {TENSOR} -> f16\n"
        "%x = arith.extf %e : f16 to f32\n%c = arith.cmpf ogt, %x, %x : f32"
    ),
    "two conditions": "%c = arith.andi %p, %q : i1",
    "a loop's result": (
        "%one = arith.constant 1 : index\n"
        "%s = scf.for %j = %one to %K step %one iter_args(%t0 = %one) -> (index) {\n"
        "  %t1 = arith.addi %t0, %j : index\n  scf.yield %t1 : index\n}\n"
        "%c = arith.cmpi slt, %s, %M : index"
    ),
    "a branch's result": (
        "%s = scf.if %p -> (index) { scf.yield %k : index } else { scf.yield %M : index }\n"
        "%c = arith.cmpi slt, %s, %M : index"
    ),
}


@pytest.mark.parametrize("condition", ALIKE.values(), ids=ALIKE)
def test_check_uniform_takes_what_all_threads_agree_on(condition: str) -> None:
    module = run(body(f"{condition}\nscf.if %c {{ {LOAD} {READ} }}"), PASS)
    guards = [op for op in find(module, scf.IfOp) if not op.results]
    assert len(guards) == 2


def test_check_uniform_refuses_what_differs_between_threads() -> None:
    message = (
        "this branch holds tile ops, which all threads run together, and its condition comes from "
        "gpu.thread_id, which differs between threads; let it depend on sizes, coordinates and "
        "tensors that the kernel only reads"
    )
    condition = "%x = gpu.thread_id\n%c = arith.cmpi slt, %x, %k : index"
    text = body(f"{condition}\nscf.if %c {{ {LOAD} }}")
    assert_refused(text, "VaryingCondition", message, "scf.if", PASS)


def test_check_uniform_refuses_what_the_body_does() -> None:
    message = (
        "the condition of this branch depends on what memref.load gives, which is known only when "
        "the ops before it have run, and the branch's copies run ahead of them; let it depend on "
        "sizes, coordinates and tensors that the kernel only reads"
    )
    registers = "memref<1xi1, #gpu<space register>>"
    text = body(
        f"%c = memref.load %r[%i] : {registers}\nscf.if %c {{ {LOAD} }}",
        f"%r = memref.alloca() : {registers}",
    )
    assert_refused(text, "LateCondition", message, "scf.if", PASS)


def test_check_uniform_refuses_what_the_kernel_writes() -> None:
    message = (
        "the condition of this branch is read from a tensor that the kernel writes, so that it may "
        "change before the ops of the branch run; read it from an input"
    )
    store = f"gpu.store_global %e, %A[%M, %k : index, index] : f16, {TENSOR}"
    condition = ALIKE["an input's element"]
    text = body(f"{condition}\n{store}\nscf.if %c {{ {LOAD} }}")
    assert_refused(text, "LateCondition", message, "scf.if", PASS)


@pytest.mark.parametrize("name", ["gpu.block_id", "gpu.cluster_rank"])
def test_check_uniform_of_a_multicast_copy_is_of_the_cluster(name: str) -> None:
    message = (
        "this branch holds a multicast copy, which all CTAs of a cluster make together, and its "
        f"condition comes from {name}, which differs between them; copy without multicast, or let "
        "the condition depend on sizes and the loop's position"
    )
    shared = LOAD.replace("to %t", "to %t multicast")
    text = body(f"%b = {name}\n%c = arith.cmpi slt, %b, %M : index\nscf.if %c {{ {shared} }}")
    assert_refused(text, "VaryingCondition", message, "scf.if", PASS)
    run(body(f"scf.if %p {{ {shared} }}"), PASS)


def test_bind_if_refuses_values() -> None:
    message = (
        "a branch of a pipeline's body holds tile ops and gives values, so that its statements "
        "cannot run at stages of their own; compute the values in a branch that does nothing else"
    )
    text = body(
        f"%s = scf.if %p -> (index) {{ {LOAD} scf.yield %k : index }} "
        "else { scf.yield %M : index }"
    )
    assert_refused(text, "GuardedValue", message, "scf.if", PASS)


def test_a_branch_that_was_not_bound_is_refused() -> None:
    message = (
        "this branch loads a tile and does something else, so that its copies cannot run ahead; "
        "run gpu-bind-ifs, and let nothing in the branch use what its copies give"
    )
    text = body(f"scf.if %p {{ {LOAD} {READ} }}")
    assert_refused(text, "IfNotBound", message, "scf.if", "gpu-inject-pipeline")


def test_a_guarded_copy_gets_its_loader_and_its_stage() -> None:
    module = run(
        body(f"scf.if %p {{ {LOAD} {READ} }}", arch="sm_80"), PASS, "gpu-pipeline-planning"
    )
    copy, contract = only(module, tile.CopyOp), only(module, tile.ContractOp)
    assert copy.loader is not None and copy.loader.data == "cp_async"
    assert [str(op.properties["stage"]) for op in (copy, contract)] == ["0 : index", "2 : index"]


def test_inject_pipeline_clones_guards() -> None:
    """Each copy and each contract stands in a guard of its own, whose condition it computes."""
    condition = "%c = arith.cmpi slt, %k, %M : index"
    text = body(f"{condition}\nscf.if %c {{ {LOAD} {READ} }}", arch="sm_80")
    passes = ("gpu-pipeline-planning", "gpu-layout-inference", "gpu-multi-version-buffers")
    module = run(text, PASS, *passes, "gpu-inject-pipeline")
    for op in (*find(module, tile.CopyOp), *find(module, tile.ContractOp)):
        ((condition_, holds),) = literals(op)[:1]
        assert holds and isinstance(condition_.owner, Operation)
        assert condition_.owner.name == "arith.cmpi"
    assert len(find(module, hw.CpAsyncCommitOp)) == 2, "one group an iteration, guarded or not"
