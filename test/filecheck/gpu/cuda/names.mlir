// RUN: polyc-opt %s -t cuda | filecheck %s

// Names are the IR's own, made fit for C, unique in a kernel, and never a name that C needs.
gpu.module @names arch "sm_80" symbols [M] {
  gpu.kernel @names(%int: !gpu.global<[M], i32> = tensor 0, %M: index = symbol M) threads 32 {
    %threadIdx = gpu.thread_id
    %names = arith.addi %threadIdx, %M : index
    %a.b = arith.addi %names, %M : index
    %a_b = arith.addi %a.b, %M : index
    %floor_div = arith.addi %a_b, %M : index
    %store_global_u32 = arith.addi %floor_div, %M : index
    %f16x2 = arith.addi %store_global_u32, %M : index
    %0 = arith.addi %f16x2, %M : index
    %1 = arith.addi %0, %M : index
    %r = arith.index_cast %1 : index to i32
    gpu.store_global %r, %int[%M : index] : i32, !gpu.global<[M], i32>
    gpu.return
  }
  gpu.kernel @empty() threads 32 {
    gpu.return
  }
}

// CHECK: extern "C" __global__ void __launch_bounds__(32, 1)
// CHECK-NEXT: names(u32* __restrict__ int_, int M) {
// CHECK-NEXT:   int threadIdx_ = (int)threadIdx.x;
// CHECK-NEXT:   int names_1 = threadIdx_ + M;
// CHECK-NEXT:   int a_b = names_1 + M;
// CHECK-NEXT:   int a_b_1 = a_b + M;
// CHECK-NEXT:   int floor_div_ = a_b_1 + M;
// CHECK-NEXT:   int v_store_global_u32 = floor_div_ + M;
// CHECK-NEXT:   int f16x2_ = v_store_global_u32 + M;
// CHECK-NEXT:   int sum = f16x2_ + M;
// CHECK-NEXT:   int sum_1 = sum + M;
// CHECK-NEXT:   u32 r = (u32)sum_1;
// CHECK-NEXT:   store_global_u32(int_ + M, r);
// CHECK-NEXT: }
// CHECK: extern "C" __global__ void __launch_bounds__(32, 1)
// CHECK-NEXT: empty() {
// CHECK-NEXT: }
