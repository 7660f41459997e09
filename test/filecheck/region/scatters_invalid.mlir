// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of region.scatter; the message says which, with the values.

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: unknown function sub; it is one of add, max, min, mul, set
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter sub %0, %1 where [%2 is %3] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected !region.val types, got !region.memref<[V, D], f32, align 4>
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [%2 is %3] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.memref<[V, D], f32, align 4>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected 3 operand types but had 4
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [%2 is %3] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected !region.val types, got !region.memref<[V, D], f32, align 4>
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %x, %1 where [%2 is %3] over [n] : !region.memref<[V, D], f32, align 4>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected !region.val types, got !region.memref<[N], i64, align 8>
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [%i is %3] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.memref<[N], i64, align 8>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: region.scatter: unknown function sub; it is one of add, max, min, mul, set
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = "region.scatter"(%0, %1, %2, %3) <{fn = "sub", over = ["n"], operandSegmentSizes = array<i32: 1, 1, 1, 1>}> : (!region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64>) -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter combines in f32 or an integer type, not f16
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f16, align 4>, %u: !region.memref<[N, D], f16, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f16, align 4> -> !region.val<[v: V, d: D], f16>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f16, align 4> -> !region.val<[n: N, d: D], f16>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [%2 is %3] over [n] : !region.val<[v: V, d: D], f16>, !region.val<[n: N, d: D], f16>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], f16>
  region.yield %4 : !region.val<[v: V, d: D], f16>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter has one element type, not f32, f32 and i32; convert with region.cast
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [%2 is %3] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], i32>
  region.yield %4 : !region.val<[v: V, d: D], i32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter has one element type, not f32, i32 and f32; convert with region.cast
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %9 = region.cast %1 : !region.val<[n: N, d: D], f32> -> !region.val<[n: N, d: D], i32>
  %4 = region.scatter add %0, %9 where [%2 is %3] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], i32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter is over different axes, not []
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [%2 is %3] over [] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter is over different axes, not [n, n]
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [%2 is %3] over [n, n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter compares one index or more, each with a place
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter compares one index or more, each with a place
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = "region.scatter"(%0, %1, %2, %2, %3) <{fn = "add", over = ["n"], operandSegmentSizes = array<i32: 1, 1, 2, 1>}> : (!region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[n: N], i64>, !region.val<[v: V], i64>) -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the indices and places of a scatter are integers, not !region.val<[n: N], f32>
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], f32, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], f32, align 8> -> !region.val<[n: N], f32>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [%2 is %3] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], f32>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the indices and places of a scatter are integers, not !region.val<[v: V], f32>
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %9 = region.cast %3 : !region.val<[v: V], i64> -> !region.val<[v: V], f32>
  %4 = region.scatter add %0, %1 where [%2 is %9] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], f32> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: what a scatter updates depends on n, which the updates are over
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %9 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %4 = region.scatter add %9, %1 where [%2 is %3] over [n] : !region.val<[n: N, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a place of a scatter depends on n, which the updates are over
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [%2 is %2] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[n: N], i64> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis d has D points and N; it is one axis
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %9 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[d: N], i64>
  %4 = region.scatter add %0, %1 where [%9 is %3] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[d: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter over m, which no update or index has
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [%2 is %3] over [n, m] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], f32>
  region.yield %4 : !region.val<[v: V, d: D], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter has the axes of its operands without those that it is over, [v: V, d: D], not [v: V]
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [%2 is %3] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V], f32>
  region.yield %4 : !region.val<[v: V], f32>
}

// -----

// CHECK: scatters_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter has the axes of its operands without those that it is over, [v: V, d: D], not [v: V, d: D, n: N]
region.kernel @k iters [v: V, d: D] ins(%x: !region.memref<[V, D], f32, align 4>, %u: !region.memref<[N, D], f32, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[V, D], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[V, D], f32, align 4> -> !region.val<[v: V, d: D], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, D], f32, align 4> -> !region.val<[n: N, d: D], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.scatter add %0, %1 where [%2 is %3] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D, n: N], f32>
  region.yield %4 : !region.val<[v: V, d: D, n: N], f32>
}
