// RUN: polyc-opt %s -p region-drop-guards --split-input-file | filecheck %s

// A guard that the assumptions prove is dropped with its fill.
region.kernel @whole iters [n: N]
    ins(%x: !region.memref<[M], f32, align 16>) outs(y: !region.memref<[N], f32, align 16> gmem)
    assuming (N >= 4, M - N >= 0) {
  %0 = region.read %x affine_map<(d0)[s0, s1] -> (d0)> where affine_set<(d0)[s0, s1] : (-d0 + s0 - 1 >= 0)> else 7.0 : !region.memref<[M], f32, align 16> -> !region.val<[n: N], f32>
  region.yield %0 : !region.val<[n: N], f32>
}
// CHECK-LABEL: region.kernel @whole
// CHECK: region.read %x affine_map<(d0)[s0, s1] -> (d0)> : !region.memref
// CHECK-NOT: where

// -----

// One row of two is proved; the other stays, with the fill.
region.kernel @half iters [n: N]
    ins(%x: !region.memref<[N], f32, align 16>) outs(y: !region.memref<[N], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0 - 1)> where affine_set<(d0)[s0] : (d0 - 1 >= 0, -d0 + s0 >= 0)> else 0.0 : !region.memref<[N], f32, align 16> -> !region.val<[n: N], f32>
  region.yield %0 : !region.val<[n: N], f32>
}
// CHECK-LABEL: region.kernel @half
// CHECK: region.read %x {{.*}} where affine_set<(d0)[s0] : ((d0 + -1) >= 0)> else 0.0

// -----

// A condition that always holds: the select is its first value.
region.kernel @select iters [n: N]
    ins(%x: !region.memref<[N], f32, align 16>) outs(y: !region.memref<[N], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[N], f32, align 16> -> !region.val<[n: N], f32>
  %1 = region.inside affine_set<(d0)[s0] : (d0 >= 0)> : !region.val<[n: N], i1>
  %2 = region.unary neg %0 : !region.val<[n: N], f32>
  %3 = region.select %1, %0, %2 : !region.val<[n: N], i1>, !region.val<[n: N], f32>, !region.val<[n: N], f32> -> !region.val<[n: N], f32>
  region.yield %3 : !region.val<[n: N], f32>
}
// CHECK-LABEL: region.kernel @select
// CHECK: %[[X:.*]] = region.read
// CHECK-NOT: region.inside
// CHECK: region.yield %[[X]]
