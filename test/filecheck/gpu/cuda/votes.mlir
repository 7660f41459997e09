// RUN: polyc-opt %s -t cuda | filecheck %s

// Threads ask each other at a barrier, and a value that the compiler knows nothing of.
gpu.module @votes arch "sm_80" symbols [M] {
  gpu.kernel @ask(%A: !gpu.global<[M], i32> = tensor 0, %M: index = symbol M) threads 128 {
    %thread = gpu.thread_id
    %group = affine.apply affine_map<(d0) -> (d0 floordiv 64)> (%thread)
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %last = arith.cmpi eq, %thread, %M : index
    %any = gpu.barrier_any %last at 0 threads 128
    %some = gpu.barrier_any %last at 3 plus %group threads 64
    scf.if %any {
      %block = gpu.block_id
      %anew = gpu.opaque %block
      %found = arith.select %some, %one, %zero : i32
      gpu.store_global %found, %A[%anew : index] : i32, !gpu.global<[M], i32>
    }
    gpu.return
  }
}

// CHECK: template <int threads>
// CHECK-NEXT: __device__ __forceinline__ bool barrier_any(u32 id, bool condition) {
// CHECK-NEXT:   u32 found;
// CHECK-NEXT:   asm volatile("{\n"
// CHECK-NEXT:       ".reg .pred here, found;\n"
// CHECK-NEXT:       "setp.ne.u32 here, %1, 0;\n"
// CHECK-NEXT:       "bar.red.or.pred found, %2, %3, here;\n"
// CHECK-NEXT:       "selp.u32 %0, 1, 0, found;\n"
// CHECK-NEXT:       "}"
// CHECK-NEXT:       : "=r"(found)
// CHECK-NEXT:       : "r"((u32)condition), "r"(id), "n"(threads)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT:   return found != 0;
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ int opaque(int value) {
// CHECK-NEXT:   asm volatile("" : "+r"(value));
// CHECK-NEXT:   return value;
// CHECK-NEXT: }
// CHECK: ask(u32* __restrict__ A, int M) {
// CHECK:        bool any = barrier_any<128>(0, last);
// CHECK-NEXT:   bool some = barrier_any<64>(3 + group, last);
// CHECK-NEXT:   if (any) {
// CHECK-NEXT:     int block = (int)blockIdx.x;
// CHECK-NEXT:     int anew = opaque(block);
// CHECK-NEXT:     u32 found = some ? 1u : 0u;
// CHECK-NEXT:     store_global_u32(A + anew, found);
