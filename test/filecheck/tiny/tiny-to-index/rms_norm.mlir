// RUN: polyc-opt %examples/rms_norm.mlir -p frontend-to-tiny,tiny-to-index | filecheck %s
// RUN: polyc-opt %examples/rms_norm.mlir -p frontend-to-tiny,tiny-to-index | polyc-opt | filecheck %s

// The mean of the squares is a value of the row.

// CHECK:      %{{[0-9]+}} = tiny.reduce sum %{{[0-9]+}} axes [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): M] reduce [n({{[0-9]+}}): N] box from [affine_map<(d0, d1)[s0, s1] -> (d0, d1)>] : !tiny.tensor<[M], f32>
// CHECK:      %{{[0-9]+}} = tiny.expand %{{[0-9]+}} dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): M, i1({{[0-9]+}}): N broadcast] box from [affine_map<(d0, d1)[s0, s1] -> (d0)>] : !tiny.tensor<[M, N], f32>
// CHECK:      %{{[0-9]+}} = tiny.expand %gamma_f32 dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: index.value %{{[0-9]+}} axes [i0({{[0-9]+}}): M broadcast, i1({{[0-9]+}}): N] box from [affine_map<(d0, d1)[s0, s1] -> (d1)>] : !tiny.tensor<[M, N], f32>
