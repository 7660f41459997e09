// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of region.gather; the message says which, with the values.

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected clamp, or fill and a number: what a place outside reads
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [%1, %1] along [v, w] wrap : !region.val<[v: V, w: W, d: D], f32>, !region.val<[n: N], i64>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D], f32>
  region.yield %2 : !region.val<[n: N, d: D], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected !region.val types, got !region.memref<[N], f32, align 4>
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [%1] along [v] clamp : !region.val<[v: V, w: W, d: D], f32>, !region.val<[n: N], i64> -> !region.memref<[N], f32, align 4>
  region.yield %2 : !region.val<[n: N, d: D], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather of f32 gives that, not f16; convert with region.cast
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [%1, %1] along [v, w] clamp : !region.val<[v: V, w: W, d: D], f32>, !region.val<[n: N], i64>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D], f16>
  region.yield %2 : !region.val<[n: N, d: D], f16>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather is along different axes, not [v, v]
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [%1, %1] along [v, v] clamp : !region.val<[v: V, w: W, d: D], f32>, !region.val<[n: N], i64>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D], f32>
  region.yield %2 : !region.val<[n: N, d: D], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather is along different axes, not []
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [] along [] clamp : !region.val<[v: V, w: W, d: D], f32> -> !region.val<[n: N, d: D], f32>
  region.yield %2 : !region.val<[n: N, d: D], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected 1 operand types but had 2
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [%1] along [v] clamp : !region.val<[v: V, w: W, d: D], f32> -> !region.val<[n: N, d: D], f32>
  region.yield %2 : !region.val<[n: N, d: D], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected !region.val types, got !region.memref<[V, W, D], f32, align 4>
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %x at [%1] along [v] clamp : !region.memref<[V, W, D], f32, align 4>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D], f32>
  region.yield %2 : !region.val<[n: N, d: D], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather along 2 axes has 1 indices; give one each
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [%1] along [v, w] clamp : !region.val<[v: V, w: W, d: D], f32>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D], f32>
  region.yield %2 : !region.val<[n: N, d: D], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather along u, which is no axis of [v: V, w: W, d: D]
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [%1, %1] along [v, u] clamp : !region.val<[v: V, w: W, d: D], f32>, !region.val<[n: N], i64>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D], f32>
  region.yield %2 : !region.val<[n: N, d: D], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: an index of a gather depends on v, whose place it is to say
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %9 = region.index affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.val<[v: V], i64>
  %2 = region.gather %0 at [%1, %9] along [v, w] clamp : !region.val<[v: V, w: W, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[n: N, d: D], f32>
  region.yield %2 : !region.val<[n: N, d: D], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the indices of a gather are of an integer type, not f32; convert with region.cast
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], f32, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], f32, align 8> -> !region.val<[n: N], f32>
  %2 = region.gather %0 at [%1, %1] along [v, w] clamp : !region.val<[v: V, w: W, d: D], f32>, !region.val<[n: N], f32>, !region.val<[n: N], f32> -> !region.val<[n: N, d: D], f32>
  region.yield %2 : !region.val<[n: N, d: D], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis d has D points and N; it is one axis
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %9 = region.index affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.val<[d: N], i64>
  %2 = region.gather %0 at [%1, %9] along [v, w] clamp : !region.val<[v: V, w: W, d: D], f32>, !region.val<[n: N], i64>, !region.val<[d: N], i64> -> !region.val<[n: N, d: D], f32>
  region.yield %2 : !region.val<[n: N, d: D], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather has the other axes of its operand and those of its indices, [d: D, n: N], not [n: N]
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [%1, %1] along [v, w] clamp : !region.val<[v: V, w: W, d: D], f32>, !region.val<[n: N], i64>, !region.val<[n: N], i64> -> !region.val<[n: N], f32>
  region.yield %2 : !region.val<[n: N], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather has the other axes of its operand and those of its indices, [d: D, n: N], not [n: N, d: D, w: W]
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f32, align 4> -> !region.val<[v: V, w: W, d: D], f32>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [%1, %1] along [v, w] clamp : !region.val<[v: V, w: W, d: D], f32>, !region.val<[n: N], i64>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D, w: W], f32>
  region.yield %2 : !region.val<[n: N, d: D, w: W], f32>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the fill of a gather: 0.1 is no f16; give one that it holds
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], f16, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], f16, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], f16, align 4> -> !region.val<[v: V, w: W, d: D], f16>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [%1, %1] along [v, w] fill 0.1 : !region.val<[v: V, w: W, d: D], f16>, !region.val<[n: N], i64>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D], f16>
  region.yield %2 : !region.val<[n: N, d: D], f16>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the fill of a gather: 200 is no i8, which holds integers from -128 to 127
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], i8, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], i8, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], i8, align 4> -> !region.val<[v: V, w: W, d: D], i8>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [%1, %1] along [v, w] fill 200 : !region.val<[v: V, w: W, d: D], i8>, !region.val<[n: N], i64>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D], i8>
  region.yield %2 : !region.val<[n: N, d: D], i8>
}

// -----

// CHECK: gathers_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the fill of a gather: 2.0 is no i1, which holds 0 and 1
region.kernel @k iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], i1, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], i1, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], i1, align 4> -> !region.val<[v: V, w: W, d: D], i1>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %2 = region.gather %0 at [%1, %1] along [v, w] fill 2.0 : !region.val<[v: V, w: W, d: D], i1>, !region.val<[n: N], i64>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D], i1>
  region.yield %2 : !region.val<[n: N, d: D], i1>
}
