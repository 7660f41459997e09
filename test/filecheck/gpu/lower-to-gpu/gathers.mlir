// RUN: polyc-opt %s -p lower-to-gpu{arch=sm_90a} | filecheck %s
// RUN: polyc-opt %s -p lower-to-gpu{arch=sm_80} | filecheck %s
// RUN: polyc-opt %s -p lower-to-gpu{arch=sm_80} -t cuda | filecheck %s --check-prefix=CUDA

// Rows at indices: an index is read once for a vector, put inside of the table in its own type, and
// the row is read by one load of 16 bytes.

// CHECK-LABEL: gpu.kernel @rows_vector
// CHECK:       [[INDEX:%[a-z0-9_]+]] = gpu.load_global %i[{{.*}} -> i64
// CHECK-NOT:   gpu.load_global
// CHECK:       [[LOW:%[a-z0-9_]+]] = arith.maxsi [[INDEX]], {{.*}} : i64
// CHECK-NEXT:  [[PLACE:%[a-z0-9_]+]] = arith.minsi [[LOW]], {{.*}} : i64
// CHECK-NEXT:  arith.index_cast [[PLACE]] : i64 to index
// CHECK:       gpu.load_global %x[{{.*}} -> vector<8xf16>
// CHECK-NOT:   gpu.load_global
// CHECK:       gpu.store_global {{.*}} : vector<8xf16>

// CUDA-LABEL: rows_vector
// CUDA: load_global_nc_f16x8_if(x + 
frontend.graph @rows(%x: !frontend.tensor<[V, 64], f16>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, 64], f16> assuming (V >= 1) {
  %0 = frontend.gather %x, %i axis 0 clamp : (!frontend.tensor<[V, 64], f16>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, 64], f16>
  frontend.output %0 : !frontend.tensor<[N, 64], f16>
}
