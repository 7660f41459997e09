// RUN: polyc analyze %examples/conv_silu.mlir | filecheck %s
// RUN: polyc-opt %examples/conv_silu.mlir -p frontend-to-tiny,tiny-to-index --dump=poly_view | filecheck %s --check-prefix=VIEW

// CHECK: conv        [n, h + r0 - 1, w + r1 - 1, c] x [f, r0, r1, c] -> [n, h, w, f]
// CHECK-NEXT: axes        parallel n h w f; reduced r0 r1 c
// CHECK-NEXT: tile        n 1, h 8, w 16, f 128, r0 1, r1 1, c 64; tails along h w f c
// CHECK-NEXT: halo        h -1 +1, w -1 +1: 6656 bytes
// CHECK: compute at  v6 once at each n h w f
// CHECK: guards
// CHECK: kept        v6, tiny.pad v0: [N, H, W, C, F] -> { [n, h, w, f, r0, r1, c] : r0 <= H - h }
// CHECK-NEXT: false at n = 0, h = 0,
// CHECK: kept        v6, tiny.pad v0: [N, H, W, C, F] -> { [n, h, w, f, r0, r1, c] : r0 > -h }
// CHECK: why not
// CHECK-NEXT: tma         v6: the stride of dimension 2 of X is 2 * C bytes

// VIEW: "kind": "contraction_pattern"
// VIEW: "tensor": "X"
// VIEW: "on": "[N, H, W, C, F] -> { [n, h, w, f, r0, r1, c] : -h < r0 <= H - h and -w < r1 <= W - w }"
// VIEW-NEXT: "map": "[N, H, W, C, F] -> { [n, h, w, f, r0, r1, c] -> X[n, h + r0 - 1, w + r1 - 1, c] }"
// VIEW: "fill": 0.0
// VIEW: "pattern": "conv"
// VIEW: "h": "h + r0 - 1"
// VIEW-NEXT: "w": "w + r1 - 1"
