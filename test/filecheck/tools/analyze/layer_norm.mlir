// RUN: polyc analyze %examples/layer_norm.mlir | filecheck %s
// RUN: polyc analyze %examples/layer_norm.mlir --tile n=8 --json | filecheck %s --check-prefix=JSON

// CHECK: v0 = tiny.reduce sum
// CHECK-NEXT: axes        parallel m; reduced n
// CHECK-NEXT: tile        m 64; tails along m
// CHECK: v5 = tiny.binary sub
// CHECK: compute at  v3 once at each m{{$}}
// CHECK: why not
// CHECK: fusion      v5: v3 is not computed inside tiles of n, as element {{.*}} of v3 is needed at n = 0 and at n = 64
// CHECK: tensor core v7: not a contraction, as both operands are read along the same axes, so nothing is used twice

// JSON: "graph": "layer_norm",
// JSON: "parallel_axes": [
// JSON: "tail_axes": [
// JSON: "compute_at": {
// JSON-NEXT: "ok": true,
// JSON-NEXT: "halo": {
// JSON-NEXT: "bytes": 0,
// JSON-NEXT: "per_axis": {
// JSON: "min_buffer": {
// JSON-NEXT: "buffer":
// JSON-NEXT: "depth":
