// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK: %1 = region.sort %0 over n into r {note = "kept"} : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: 8], i64>
region.kernel @f iters [m: M, r: 8]
    ins(%x: !region.memref<[M, N], i64, align 8>) outs(y: !region.memref<[M, 8], i64, align 8> gmem) assuming (N >= 8) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], i64, align 8> -> !region.val<[m: M, n: N], i64>
  %1 = region.sort %0 over n into r {note = "kept"} : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: 8], i64>
  region.yield %1 : !region.val<[m: M, r: 8], i64>
}

// CHECK-LABEL: @bits
// CHECK: %1 = region.bitcast %0 : !region.val<[n: N], f32> -> !region.val<[n: N], i32>
// CHECK-NEXT: %2 = region.sort %1 over n into r0 : !region.val<[n: N], i32> -> !region.val<[r0: N], i32>
region.kernel @bits iters [r0: N]
    ins(%x: !region.memref<[N], f32, align 4>) outs(y: !region.memref<[N], i32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[N], f32, align 4> -> !region.val<[n: N], f32>
  %1 = region.bitcast %0 : !region.val<[n: N], f32> -> !region.val<[n: N], i32>
  %2 = region.sort %1 over n into r0 : !region.val<[n: N], i32> -> !region.val<[r0: N], i32>
  region.yield %2 : !region.val<[r0: N], i32>
}

// Which bits decide is said.

// CHECK: region.sort %0 over n into r by 32 to 64 : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: N], i64>
region.kernel @g iters [m: M, r: N]
    ins(%x: !region.memref<[M, N], i64, align 8>) outs(y: !region.memref<[M, N], i64, align 8> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], i64, align 8> -> !region.val<[m: M, n: N], i64>
  %1 = region.sort %0 over n into r by 32 to 64 : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: N], i64>
  region.yield %1 : !region.val<[m: M, r: N], i64>
}
