// RUN: polyc-opt %s -p lower-to-gpu{arch=sm_90a} | filecheck %s
// RUN: polyc-opt %s -p lower-to-gpu{arch=sm_80} | filecheck %s
// RUN: polyc-opt %s -p lower-to-gpu{arch=sm_80} -t cuda | filecheck %s --check-prefix=CUDA

// Of many updates a block looks at the indices of a part, each once.  An update of a row of its tile
// has a number, the row above its place in the order; those that are kept are sorted and taken one
// after another, a row's elements by one load of 16 bytes.

// CHECK-LABEL: gpu.kernel @rows_pooled_vector
// CHECK:       gpu.load_global %x[{{.*}} -> vector<8xf16>
// CHECK:       scf.for %n0 =
// CHECK:       [[INDEX:%[a-z0-9_]+]] = gpu.load_global %i[{{.*}} -> i64
// CHECK:       [[ROW:%[a-z0-9_]+]] = arith.subi [[INDEX]], {{.*}} {gpu.wraps} : i64
// CHECK:       arith.cmpi ult, [[ROW]], {{.*}} : i64
// CHECK:       arith.shli [[ROW]], {{.*}} : i64
// CHECK:       arith.ori
// CHECK:       gpu.barrier_any
// CHECK:       scf.for %found =
// CHECK-NOT:   gpu.load_global %i
// CHECK:       gpu.load_global %u[{{.*}} -> vector<8xf16>
// CHECK:       arith.addf {{.*}} : f32
// CHECK:       arith.select
// CHECK:       gpu.store_global {{.*}} : vector<8xf16>, !gpu.global<[V, 64], f16, align 16>

// Of few, a block takes each in turn, and leaves those whose index is another place.

// CHECK-LABEL: gpu.kernel @rows_vector
// CHECK:       scf.for %n =
// CHECK:       gpu.load_global %u[{{.*}} -> vector<8xf16>
// CHECK-NOT:   gpu.load_global %u
// CHECK:       [[AT:%[a-z0-9_]+]] = gpu.load_global %i[{{.*}} -> i64
// CHECK:       [[HERE:%[a-z0-9_]+]] = arith.cmpi eq, [[AT]], {{.*}} : i64
// CHECK-NEXT:  [[SUM:%[a-z0-9_]+]] = arith.addf [[OLD:%[a-z0-9_]+]], {{.*}} : f32
// CHECK:       arith.select [[HERE]], [[SUM]], [[OLD]] : f32
// CHECK:       gpu.store_global {{.*}} : vector<8xf16>, !gpu.global<[V, 64], f16, align 16>

// CUDA-LABEL: rows_pooled_vector
// CUDA: load_global_nc_i64_if(i + 
// CUDA: load_global_nc_f16x8_if(u + 
// CUDA: store_global_f16x8(C + 
// CUDA-LABEL: rows_vector
// CUDA: load_global_nc_f16x8_if(u + 
frontend.graph @rows(%x: !frontend.tensor<[V, 64], f16>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, 64], f16>) -> !frontend.tensor<[V, 64], f16> {
  %0 = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, 64], f16>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, 64], f16>) -> !frontend.tensor<[V, 64], f16>
  frontend.output %0 : !frontend.tensor<[V, 64], f16>
}
