// RUN: polyc-opt %s -p region-fold-indices | filecheck %s

// A rest, and what is made of it, is one index; a cast to f32 stays.

// CHECK-LABEL: region.kernel @weighs
// CHECK-NEXT: ins()
// CHECK-NEXT: outs
// CHECK-NEXT: %again = region.index affine_map<(d0) -> ((((d0 * 2) + (((d0 + 1) floordiv 2) * -4)) + 3))> : !region.val<[i: 8], i32>
// CHECK-NEXT: %y = region.cast %again
// CHECK-NEXT: region.yield %y
region.kernel @weighs iters [i: 8] ins() outs(C: !region.memref<[8], f32, align 4> gmem) {
  %i = region.index affine_map<(d0) -> (d0)> : !region.val<[i: 8], i32>
  %c4 = region.constant 4 : !region.val<[], i32>
  %four = region.broadcast_in_dim %c4 dims [] : !region.val<[], i32> -> !region.val<[i: 8], i32>
  %rest = region.binary mod %i, %four : !region.val<[i: 8], i32>
  %c2 = region.constant 2 : !region.val<[], i32>
  %two = region.broadcast_in_dim %c2 dims [] : !region.val<[], i32> -> !region.val<[i: 8], i32>
  %twice = region.binary mul %rest, %two : !region.val<[i: 8], i32>
  %c3 = region.constant 3 : !region.val<[], i32>
  %three = region.broadcast_in_dim %c3 dims [] : !region.val<[], i32> -> !region.val<[i: 8], i32>
  %plus = region.binary add %twice, %three : !region.val<[i: 8], i32>
  %again = region.binary mod %plus, %four : !region.val<[i: 8], i32>
  %y = region.cast %again : !region.val<[i: 8], i32> -> !region.val<[i: 8], f32>
  region.yield %y : !region.val<[i: 8], f32>
}

// An axis of unknown size may be beyond the type, and a sum without a rest stays as it is.

// CHECK-LABEL: region.kernel @open
// CHECK: region.binary mod
// CHECK: region.binary add
region.kernel @open iters [i: N] ins() outs(C: !region.memref<[N], i32, align 4> gmem) {
  %i = region.index affine_map<(d0)[s0] -> (d0)> : !region.val<[i: N], i32>
  %c4 = region.constant 4 : !region.val<[], i32>
  %four = region.broadcast_in_dim %c4 dims [] : !region.val<[], i32> -> !region.val<[i: N], i32>
  %rest = region.binary mod %i, %four : !region.val<[i: N], i32>
  %sum = region.binary add %rest, %four : !region.val<[i: N], i32>
  region.yield %sum : !region.val<[i: N], i32>
}
