// RUN: polyc-opt %s -p region-srnf{report=true} 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p region-srnf{report=true} 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// R3: what follows a reduction runs where its accumulator lies; the residual is turned instead.
// CHECK-LABEL: region.kernel @turned
// CHECK:         %acc = region.reduce sum
// CHECK-NEXT:    %1 = region.read %r
// CHECK-NEXT:    %2 = region.transpose %1 perm [1, 0] : !region.val<[n: N, m: M], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT:    %3 = region.binary add %acc, %2 : !region.val<[m: M, n: N], f32>
// CHECK-NEXT:    %4 = region.cast %3 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
// CHECK-NEXT:    %5 = region.transpose %4 perm [1, 0] : !region.val<[m: M, n: N], f16> -> !region.val<[n: N, m: M], f16>
// CHECK-NEXT:    region.yield %5
// REMARK:      remark[exact]: region.binary runs on the accumulator, before it is transposed
// REMARK-NEXT: remark[exact]: region.cast runs on the accumulator, before it is transposed
region.kernel @turned iters [n: N, m: M] ins(%x: !region.memref<[M, N, K], f32, align 4>, %r: !region.memref<[N, M], f32, align 4>) outs(y: !region.memref<[N, M], f16, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[M, N, K], f32, align 4> -> !region.val<[m: M, n: N, k: K], f32>
  %acc = region.reduce sum %0 over [k] init 0.0 : !region.val<[m: M, n: N, k: K], f32> -> !region.val<[m: M, n: N], f32>
  %1 = region.transpose %acc perm [1, 0] : !region.val<[m: M, n: N], f32> -> !region.val<[n: N, m: M], f32>
  %2 = region.read %r affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, M], f32, align 4> -> !region.val<[n: N, m: M], f32>
  %3 = region.binary add %1, %2 : !region.val<[n: N, m: M], f32>
  %4 = region.cast %3 : !region.val<[n: N, m: M], f32> -> !region.val<[n: N, m: M], f16>
  region.yield %4 : !region.val<[n: N, m: M], f16>
}

// Two accumulators that lie unlike, and a transposed value that no reduction leads to, stay;
// two transposes are none.
// CHECK-LABEL: region.kernel @unlike
// CHECK:         %[[R:.*]] = region.transpose %{{.*}} perm [1, 0]
// CHECK-NEXT:    %[[E:.*]] = region.unary exp %[[R]]
// CHECK-NEXT:    %[[A:.*]] = region.binary add %a, %[[E]]
// CHECK-NEXT:    %[[T:.*]] = region.transpose %b perm [1, 0]
// CHECK-NEXT:    %[[Y:.*]] = region.binary add %[[A]], %[[T]]
// CHECK-NEXT:    region.yield %[[Y]]
region.kernel @unlike iters [m: M, n: N] ins(%x: !region.memref<[M, N, K], f32, align 4>, %w: !region.memref<[N, M, K], f32, align 4>, %r: !region.memref<[N, M], f32, align 4>) outs(y: !region.memref<[M, N], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[M, N, K], f32, align 4> -> !region.val<[m: M, n: N, k: K], f32>
  %1 = region.read %w affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[N, M, K], f32, align 4> -> !region.val<[n: N, m: M, k: K], f32>
  %2 = region.read %r affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, M], f32, align 4> -> !region.val<[n: N, m: M], f32>
  %a = region.reduce sum %0 over [k] init 0.0 : !region.val<[m: M, n: N, k: K], f32> -> !region.val<[m: M, n: N], f32>
  %b = region.reduce sum %1 over [k] init 0.0 : !region.val<[n: N, m: M, k: K], f32> -> !region.val<[n: N, m: M], f32>
  %3 = region.transpose %2 perm [1, 0] : !region.val<[n: N, m: M], f32> -> !region.val<[m: M, n: N], f32>
  %4 = region.unary exp %3 : !region.val<[m: M, n: N], f32>
  %5 = region.transpose %a perm [1, 0] : !region.val<[m: M, n: N], f32> -> !region.val<[n: N, m: M], f32>
  %6 = region.transpose %5 perm [1, 0] : !region.val<[n: N, m: M], f32> -> !region.val<[m: M, n: N], f32>
  %7 = region.binary add %6, %4 : !region.val<[m: M, n: N], f32>
  %8 = region.transpose %b perm [1, 0] : !region.val<[n: N, m: M], f32> -> !region.val<[m: M, n: N], f32>
  %9 = region.binary add %7, %8 : !region.val<[m: M, n: N], f32>
  region.yield %9 : !region.val<[m: M, n: N], f32>
}
