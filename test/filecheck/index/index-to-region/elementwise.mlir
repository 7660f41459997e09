// RUN: polyc-opt %s -p tiny-to-index,index-to-region | filecheck %s

// No reduction: a kernel all the same.  A size-1 axis is read at 0, and the value that
// depends on n alone is computed over n alone.
tiny.graph @scale(%x: !tiny.tensor<[M, N], f32>, %row: !tiny.tensor<[M, 1], f32>, %s: !tiny.tensor<[N], f32>) -> (y: !tiny.tensor<[M, N], f32>) {
  %r = tiny.expand %row dims [0, 1] : !tiny.tensor<[M, 1], f32> -> !tiny.tensor<[M, N], f32>
  %a = tiny.binary add %x, %r : !tiny.tensor<[M, N], f32>
  %b = tiny.expand %s dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N], f32>
  %e = tiny.unary exp %b : !tiny.tensor<[M, N], f32>
  %y = tiny.binary mul %a, %e : !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}
// CHECK:       region.kernel @scale iters [m: M, n: N]
// CHECK:         %[[X:[a-zA-Z0-9_]+]] = region.read %x {{.*}} -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT:    %[[R:[a-zA-Z0-9_]+]] = region.read %row affine_map<(d0)[s0, s1] -> (d0, 0)> : {{.*}} -> !region.val<[m: M], f32>
// CHECK-NEXT:    %[[RB:[a-zA-Z0-9_]+]] = region.broadcast_in_dim %[[R]] dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT:    %a = region.binary add %[[X]], %[[RB]]
// CHECK-NEXT:    %[[S:[a-zA-Z0-9_]+]] = region.read %s
// CHECK-NEXT:    %e = region.unary exp %[[S]] : !region.val<[n: N], f32>
// CHECK-NEXT:    %[[E:[a-zA-Z0-9_]+]] = region.broadcast_in_dim %e dims [1]
// CHECK-NEXT:    %y = region.binary mul %a, %[[E]]

// A permuted value meets its plain self: one read, one transpose; compare and select.
tiny.graph @swap(%x: !tiny.tensor<[N, N], f32>) -> (y: !tiny.tensor<[N, N], f32>) {
  %t = tiny.permute %x perm [1, 0] : !tiny.tensor<[N, N], f32> -> !tiny.tensor<[N, N], f32>
  %c = tiny.compare lt %x, %t : !tiny.tensor<[N, N], f32>
  %y = tiny.select %c, %x, %t : !tiny.tensor<[N, N], f32>
  tiny.output %y : !tiny.tensor<[N, N], f32>
}
// CHECK:       region.kernel @swap iters [n: N, i1: N]
// CHECK:         %[[P:[a-zA-Z0-9_]+]] = region.read %x {{.*}} -> !region.val<[n: N, i1: N], f32>
// CHECK-NEXT:    %[[Q:[a-zA-Z0-9_]+]] = region.read %x {{.*}} -> !region.val<[i1: N, n: N], f32>
// CHECK-NEXT:    %[[T:[a-zA-Z0-9_]+]] = region.transpose %[[Q]] perm [1, 0] : !region.val<[i1: N, n: N], f32> -> !region.val<[n: N, i1: N], f32>
// CHECK-NEXT:    %c = region.compare lt %[[P]], %[[T]]
// CHECK-NEXT:    %[[T2:[a-zA-Z0-9_]+]] = region.transpose %[[Q]] perm [1, 0]
// CHECK-NEXT:    %y = region.select %c, %[[P]], %[[T2]]

// A value with several consumers is computed once, also a reduction (S6.6); the reduced
// axis has the name of the axis that the same values have outside.
tiny.graph @normalise(%x: !tiny.tensor<[M, N], f32>) -> (y: !tiny.tensor<[M, N], f32>) {
  %e = tiny.unary exp %x : !tiny.tensor<[M, N], f32>
  %z = tiny.reduce sum %e axes [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M], f32>
  %zb = tiny.expand %z dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, N], f32>
  %y = tiny.binary div %e, %zb : !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}
// CHECK:       region.kernel @normalise iters [m: M, n: N]
// CHECK:         %[[X:[a-zA-Z0-9_]+]] = region.read %x
// CHECK-NEXT:    %e = region.unary exp %[[X]]
// CHECK-NEXT:    %acc = region.reduce sum %e over [n] init 0.0 acc f32 name "acc" : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT:    %[[Z:[a-zA-Z0-9_]+]] = region.broadcast_in_dim %acc dims [0]
// CHECK-NEXT:    %y = region.binary div %e, %[[Z]]
// CHECK-NEXT:    region.yield %y

// What is summed does not depend on the summed axis: each point counts all the same.
tiny.graph @count(%x: !tiny.tensor<[M], f32>, %like: !tiny.tensor<[N], f32>) -> (y: !tiny.tensor<[M], f32>) {
  %e = tiny.expand %x dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, N], f32>
  %y = tiny.reduce sum %e axes [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M], f32>
  tiny.output %y : !tiny.tensor<[M], f32>
}
// CHECK:       region.kernel @count iters [m: M]
// CHECK:         region.broadcast_in_dim %{{.*}} dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT:    region.reduce sum %{{.*}} over [n]

// A scalar output, and an input that nothing reads.
tiny.graph @scalar(%x: !tiny.tensor<[N], f32>, %unused: !tiny.tensor<[P], f16>) -> (y: !tiny.tensor<[], f32>) {
  %m = tiny.reduce max %x axes [0] : !tiny.tensor<[N], f32> -> !tiny.tensor<[], f32>
  tiny.output %m : !tiny.tensor<[], f32>
}
// CHECK:       region.kernel @scalar iters []
// CHECK:         %unused: !region.memref<[P], f16
// CHECK:         region.reduce max %{{.*}} over [n] init -inf acc f32 name "acc" : !region.val<[n: N], f32> -> !region.val<[], f32>
