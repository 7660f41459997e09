// RUN: polyc-opt %s -p tiny-to-index,index-to-region | filecheck %s

// A value is rounded to its own type where it is stored, and widened where it is read.
// CHECK-LABEL: region.graph @pooled
// CHECK:       region.kernel @pooled_0 iters [n: N]
// CHECK:         outs(s: !region.memref<[N], f16, align 16, noalias> gmem {boundary = {{.*}}})
// CHECK:         %acc = region.reduce sum
// CHECK-NEXT:    %[[R:.*]] = region.cast %acc : !region.val<[n: N], f32> -> !region.val<[n: N], f16>
// CHECK-NEXT:    region.yield %[[R]] : !region.val<[n: N], f16>
// CHECK:       region.kernel @pooled_1 iters [n: N, i1: N]
// CHECK:         %[[A:.*]] = region.read %s affine_map<(d0)[s0, s1] -> (d0)>
// CHECK-NEXT:    region.cast %[[A]] : !region.val<[{{.*}}: N], f16> -> !region.val<[{{.*}}: N], f32>
tiny.graph @pooled(%x: !tiny.tensor<[M, N], f32>) -> (y: !tiny.tensor<[N, N], f32>) {
  %s = tiny.reduce sum %x axes [0] own f16 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N], f32>
  %a = tiny.expand %s dims [0] : !tiny.tensor<[N], f32> -> !tiny.tensor<[N, N], f32>
  %b = tiny.expand %s dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[N, N], f32>
  %y = tiny.binary sub %a, %b : !tiny.tensor<[N, N], f32>
  tiny.output %y : !tiny.tensor<[N, N], f32>
}

// An output has the type of the signature, whatever else reads it.
// CHECK-LABEL: region.graph @given
// CHECK:         outs(s: !region.memref<[N], f32, align 16, noalias> gmem
// CHECK-NOT:     f16
tiny.graph @given(%x: !tiny.tensor<[M, N], f32>) -> (s: !tiny.tensor<[N], f32>, y: !tiny.tensor<[N, N], f32>) {
  %s = tiny.reduce sum %x axes [0] own f16 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N], f32>
  %a = tiny.expand %s dims [0] : !tiny.tensor<[N], f32> -> !tiny.tensor<[N, N], f32>
  %b = tiny.expand %s dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[N, N], f32>
  %y = tiny.binary sub %a, %b : !tiny.tensor<[N, N], f32>
  tiny.output %s, %y : !tiny.tensor<[N], f32>, !tiny.tensor<[N, N], f32>
}
