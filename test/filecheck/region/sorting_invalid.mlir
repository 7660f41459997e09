// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of region.sort or region.bitcast; the message says which.

// CHECK: sorting_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a sort over k into r is of a value that has the one and makes one that has the other, not of [m: M, n: N] to [m: M, r: 8]
region.kernel @f iters [m: M, r: 8]
    ins(%x: !region.memref<[M, N], i64, align 8>) outs(y: !region.memref<[M, 8], i64, align 8> gmem) assuming (N >= 8) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], i64, align 8> -> !region.val<[m: M, n: N], i64>
  %1 = region.sort %0 over n into r : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: 8], i64>
  %2 = region.sort %0 over k into r : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: 8], i64>
  region.yield %1 : !region.val<[m: M, r: 8], i64>
}

// -----

// CHECK: sorting_invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: the result has no axis s
region.kernel @f iters [m: M, r: 8]
    ins(%x: !region.memref<[M, N], i64, align 8>) outs(y: !region.memref<[M, 8], i64, align 8> gmem) assuming (N >= 8) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], i64, align 8> -> !region.val<[m: M, n: N], i64>
  %1 = region.sort %0 over n into r : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: 8], i64>
  %2 = region.sort %0 over n into s : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: 8], i64>
  region.yield %1 : !region.val<[m: M, r: 8], i64>
}

// -----

// CHECK: sorting_invalid.mlir:{{[0-9]+:[0-9]+}}: error[AxisAlignmentMismatch]: [m: M, n: N] sorted over n into r is [m: M, r: 8], not [r: 8, m: M]
region.kernel @f iters [m: M, r: 8]
    ins(%x: !region.memref<[M, N], i64, align 8>) outs(y: !region.memref<[M, 8], i64, align 8> gmem) assuming (N >= 8) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], i64, align 8> -> !region.val<[m: M, n: N], i64>
  %1 = region.sort %0 over n into r : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: 8], i64>
  %2 = region.sort %0 over n into r : !region.val<[m: M, n: N], i64> -> !region.val<[r: 8, m: M], i64>
  region.yield %1 : !region.val<[m: M, r: 8], i64>
}

// -----

// CHECK: sorting_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a sort is of integers and keeps their type, not of i64 to i32; make them integers by region.bitcast
region.kernel @f iters [m: M, r: 8]
    ins(%x: !region.memref<[M, N], i64, align 8>) outs(y: !region.memref<[M, 8], i64, align 8> gmem) assuming (N >= 8) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], i64, align 8> -> !region.val<[m: M, n: N], i64>
  %1 = region.sort %0 over n into r : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: 8], i64>
  %2 = region.sort %0 over n into r : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: 8], i32>
  region.yield %1 : !region.val<[m: M, r: 8], i64>
}

// -----

// CHECK: sorting_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a bitcast is from f32 to i32 or back, not from i64 to f32; cast before it
region.kernel @f iters [m: M, r: 8]
    ins(%x: !region.memref<[M, N], i64, align 8>) outs(y: !region.memref<[M, 8], i64, align 8> gmem) assuming (N >= 8) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], i64, align 8> -> !region.val<[m: M, n: N], i64>
  %1 = region.sort %0 over n into r : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: 8], i64>
  %2 = region.bitcast %0 : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, n: N], f32>
  region.yield %1 : !region.val<[m: M, r: 8], i64>
}

// -----

// CHECK: sorting_invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: by which a sort is: the bits 8 to 8 are none of i64, which has 0 to 64
region.kernel @f iters [m: M, r: N]
    ins(%x: !region.memref<[M, N], i64, align 8>) outs(y: !region.memref<[M, N], i64, align 8> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], i64, align 8> -> !region.val<[m: M, n: N], i64>
  %1 = region.sort %0 over n into r by 8 to 8 : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: N], i64>
  region.yield %1 : !region.val<[m: M, r: N], i64>
}
