// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// A sum, as a monoid of one state.
// CHECK-LABEL: region.kernel @sum
// CHECK:         %1 = region.reduce_together %0 over [n] chunk {
// CHECK-NEXT:    ^bb0(%[[C:.*]]: !region.val<[m: M, n: N], f32>):
// CHECK-NEXT:      %[[S:.*]] = region.reduce sum %[[C]] over [n] init 0.0
// CHECK-NEXT:      region.state %[[S]] : !region.val<[m: M], f32>
// CHECK-NEXT:    } combine {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: !region.val<[m: M], f32>, %[[B:.*]]: !region.val<[m: M], f32>):
// CHECK-NEXT:      %[[T:.*]] = region.binary add %[[A]], %[[B]]
// CHECK-NEXT:      region.state %[[T]] : !region.val<[m: M], f32>
// CHECK-NEXT:    } attributes {note = "kept"} : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
region.kernel @sum iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce_together %0 over [n] chunk {
  ^bb0(%c: !region.val<[m: M, n: N], f32>):
    %s = region.reduce sum %c over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
    region.state %s : !region.val<[m: M], f32>
  } combine {
  ^bb0(%a: !region.val<[m: M], f32>, %b: !region.val<[m: M], f32>):
    %t = region.binary add %a, %b : !region.val<[m: M], f32>
    region.state %t : !region.val<[m: M], f32>
  } attributes {note = "kept"} : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}
