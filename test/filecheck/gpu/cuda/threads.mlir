// RUN: polyc-opt %s -t cuda | filecheck %s

// Who a thread is, and where the kernel's arguments and bounds go.
gpu.module @threads arch "sm_90a" symbols [M] {
  gpu.kernel @who(%A: !gpu.global<[M], i32> = tensor 0, %M: index = symbol M, %offset: i64 = symbol M) threads 128 blocks_per_sm 3 {
    %thread = gpu.thread_id
    %block = gpu.block_id
    %0 = gpu.warp_uniform %thread
    %1 = gpu.elect
    %grid = gpu.grid_size
    %last = arith.subi %grid, %block : index
    %2 = arith.addi %last, %0 : index
    %3 = arith.index_cast %2 : index to i32
    gpu.store_global %3, %A[%thread : index] if %1 : i32, !gpu.global<[M], i32>
    gpu.store_global %3, %A[%offset : i64] : i32, !gpu.global<[M], i32>
    gpu.store_global %3, %A[%M : index] : i32, !gpu.global<[M], i32>
    gpu.return
  }
}

// CHECK: __device__ __forceinline__ bool elect() {
// CHECK-NEXT:   u32 chosen;
// CHECK-NEXT:   asm volatile("{\n"
// CHECK-NEXT:       ".reg .pred p;\n"
// CHECK-NEXT:       "elect.sync _|p, 0xffffffff;\n"
// CHECK-NEXT:       "selp.b32 %0, 1, 0, p;\n"
// CHECK-NEXT:       "}"
// CHECK-NEXT:       : "=r"(chosen)
// CHECK-NEXT:       :);
// CHECK-NEXT:   return chosen;
// CHECK-NEXT: }
// CHECK: extern "C" __global__ void __launch_bounds__(128, 3)
// CHECK-NEXT: who(u32* __restrict__ A, int M, i64 offset) {
// CHECK-NEXT:   int thread = (int)threadIdx.x;
// CHECK-NEXT:   int block = (int)blockIdx.x;
// CHECK-NEXT:   int uniform = __shfl_sync(0xffffffffu, thread, 0);
// CHECK-NEXT:   bool elected = elect();
// CHECK-NEXT:   int grid = (int)gridDim.x;
// CHECK-NEXT:   int last = grid - block;
// CHECK-NEXT:   int sum = last + uniform;
// CHECK-NEXT:   u32 wide = (u32)sum;
// CHECK-NEXT:   if (elected) store_global_u32(A + thread, wide);
// CHECK-NEXT:   store_global_u32(A + offset, wide);
// CHECK-NEXT:   store_global_u32(A + M, wide);
// CHECK-NEXT: }
