// RUN: polyc-opt %examples/causal_attention.mlir -p frontend-to-tiny,tiny-to-index | filecheck %s
// RUN: polyc-opt %examples/causal_attention.mlir -p frontend-to-tiny,tiny-to-index | polyc-opt | filecheck %s

// Scores are where the key is not after the query, and -inf elsewhere; so are the values, with 0.  The
// keys are the axis that the maximum, the sum and the second product reduce.

// CHECK:      %{{[0-9]+}} = tiny.expand %Q_f32 dims [0, 1, 2, 4] : !tiny.tensor<[B, H, M, 128], f32> -> !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M, i3({{[0-9]+}}): N broadcast, i4({{[0-9]+}}): 128] box from [affine_map<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] -> (d0, d1, d2, d4)>] : !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK:      %{{[0-9]+}} = tiny.expand %K_f32 dims [0, 1, 3, 4] : !tiny.tensor<[B, H, N, 128], f32> -> !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M broadcast, i3({{[0-9]+}}): N, i4({{[0-9]+}}): 128] box from [affine_map<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] -> (d0, d1, d3, d4)>] : !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK:      %{{[0-9]+}} = tiny.reduce sum %{{[0-9]+}} axes [4] : !tiny.tensor<[B, H, M, N, 128], f32> -> !tiny.tensor<[B, H, M, N], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M, i3({{[0-9]+}}): N] reduce [r0({{[0-9]+}}): 128] box from [affine_map<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] -> (d0, d1, d2, d3, d4)>] : !tiny.tensor<[B, H, M, N], f32>
// CHECK:      %{{[0-9]+}} = tiny.mask %{{[0-9]+}} where affine_set<(d0, d1, d2, d3)[s0, s1, s2, s3] : ((d2 + (d3 * -1)) >= 0)> fill -inf : !tiny.tensor<[B, H, M, N], f32> -> !tiny.tensor<[B, H, M, N], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M, i3({{[0-9]+}}): N] pieces [affine_set<(d0, d1, d2, d3)[s0, s1, s2, s3] : ((d2 + (d3 * -1)) >= 0)> from [affine_map<(d0, d1, d2, d3)[s0, s1, s2, s3] -> (d0, d1, d2, d3)>], affine_set<(d0, d1, d2, d3)[s0, s1, s2, s3] : ((((d2 * -1) + d3) + -1) >= 0)> from [fill -inf]] : !tiny.tensor<[B, H, M, N], f32>
// CHECK:      %{{[0-9]+}} = tiny.reduce max %{{[0-9]+}} axes [3] : !tiny.tensor<[B, H, M, N], f32> -> !tiny.tensor<[B, H, M], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M] reduce [n({{[0-9]+}}): N] box from [affine_map<(d0, d1, d2, d3)[s0, s1, s2, s3] -> (d0, d1, d2, d3)>] : !tiny.tensor<[B, H, M], f32>
// CHECK:      %{{[0-9]+}} = tiny.expand %{{[0-9]+}} dims [0, 1, 2] : !tiny.tensor<[B, H, M], f32> -> !tiny.tensor<[B, H, M, N], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M, i3({{[0-9]+}}): N broadcast] box from [affine_map<(d0, d1, d2, d3)[s0, s1, s2, s3] -> (d0, d1, d2)>] : !tiny.tensor<[B, H, M, N], f32>
// CHECK:      %{{[0-9]+}} = tiny.reduce sum %{{[0-9]+}} axes [3] : !tiny.tensor<[B, H, M, N], f32> -> !tiny.tensor<[B, H, M], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M] reduce [n({{[0-9]+}}): N] box from [affine_map<(d0, d1, d2, d3)[s0, s1, s2, s3] -> (d0, d1, d2, d3)>] : !tiny.tensor<[B, H, M], f32>
// CHECK:      %{{[0-9]+}} = tiny.expand %V_f32 dims [0, 1, 3, 4] : !tiny.tensor<[B, H, N, 128], f32> -> !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M broadcast, i3({{[0-9]+}}): N, i4({{[0-9]+}}): 128] box from [affine_map<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] -> (d0, d1, d3, d4)>] : !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK:      %{{[0-9]+}} = tiny.mask %{{[0-9]+}} where affine_set<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] : ((d2 + (d3 * -1)) >= 0)> fill 0.0 : !tiny.tensor<[B, H, M, N, 128], f32> -> !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M, i3({{[0-9]+}}): N, i4({{[0-9]+}}): 128] pieces [affine_set<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] : ((d2 + (d3 * -1)) >= 0)> from [affine_map<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] -> (d0, d1, d2, d3, d4)>], affine_set<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] : ((((d2 * -1) + d3) + -1) >= 0)> from [fill 0.0]] : !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK:      %{{[0-9]+}} = tiny.expand %{{[0-9]+}} dims [0, 1, 2, 3] : !tiny.tensor<[B, H, M, N], f32> -> !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M, i3({{[0-9]+}}): N, i4({{[0-9]+}}): 128 broadcast] box from [affine_map<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] -> (d0, d1, d2, d3)>] : !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK:      %{{[0-9]+}} = tiny.reduce sum %{{[0-9]+}} axes [3] : !tiny.tensor<[B, H, M, N, 128], f32> -> !tiny.tensor<[B, H, M, 128], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M, i3({{[0-9]+}}): 128] reduce [n({{[0-9]+}}): N] box from [affine_map<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] -> (d0, d1, d2, d4, d3)>] : !tiny.tensor<[B, H, M, 128], f32>
// CHECK:      %{{[0-9]+}} = tiny.expand %{{[0-9]+}} dims [0, 1, 2] : !tiny.tensor<[B, H, M], f32> -> !tiny.tensor<[B, H, M, 128], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M, i3({{[0-9]+}}): 128 broadcast] box from [affine_map<(d0, d1, d2, d3)[s0, s1, s2, s3] -> (d0, d1, d2)>] : !tiny.tensor<[B, H, M, 128], f32>
// CHECK:      %{{[0-9]+}} = tiny.expand %{{[0-9]+}} dims [0, 1, 2] : !tiny.tensor<[B, H, M], i1> -> !tiny.tensor<[B, H, M, 128], i1>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): B, i1({{[0-9]+}}): H, i2({{[0-9]+}}): M, i3({{[0-9]+}}): 128 broadcast] box from [affine_map<(d0, d1, d2, d3)[s0, s1, s2, s3] -> (d0, d1, d2)>] : !tiny.tensor<[B, H, M, 128], i1>
