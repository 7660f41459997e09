// RUN: polyc-opt %s -t cuda | filecheck %s

gpu.module @cp_async arch "sm_80" symbols [M] {
  gpu.kernel @load(%A: !gpu.global<[M], f16, align 16> = tensor 0, %at: i64 = symbol M, %in: i1 = symbol M) threads 128 shared_bytes 4096 {
    %c0 = arith.constant 0 : index
    %tile = gpu.shared_tile at 0 : !gpu.shared<[32, 64], f16, swizzle 128>
    %address = gpu.shared_address %tile[%c0] : !gpu.shared<[32, 64], f16, swizzle 128>
    gpu.cp_async %address, %A[%at : i64] bytes 16 if %in : !gpu.global<[M], f16, align 16>
    gpu.cp_async %address, %A[%at : i64] bytes 16 : !gpu.global<[M], f16, align 16>
    gpu.cp_async %address, %A[%at : i64] bytes 4 if %in : !gpu.global<[M], f16, align 16>
    gpu.cp_async_commit
    gpu.cp_async_wait 1
    gpu.named_barrier 2 threads 64
    gpu.named_barrier 3 threads 32
    gpu.return
  }
}

// CHECK: __device__ __forceinline__ void cp_async_16_if(u32 address, const void* source, bool valid) {
// CHECK-NEXT:   asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(address), "l"(source), "r"(valid ? 16 : 0)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void cp_async_16(u32 address, const void* source) {
// CHECK-NEXT:   asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(address), "l"(source)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void cp_async_4_if(u32 address, const void* source, bool valid) {
// CHECK-NEXT:   asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(address), "l"(source), "r"(valid ? 4 : 0)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: template <int pending>
// CHECK-NEXT: __device__ __forceinline__ void cp_async_wait() {
// CHECK-NEXT:   asm volatile("cp.async.wait_group %0;"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "n"(pending)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: template <int id, int threads>
// CHECK-NEXT: __device__ __forceinline__ void named_barrier() {
// CHECK-NEXT:   asm volatile("bar.sync %0, %1;"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "n"(id), "n"(threads)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: extern "C" __global__ void __launch_bounds__(128, 1)
// CHECK-NEXT: load(const f16* __restrict__ A, i64 at, bool in) {
// CHECK-NEXT:   extern __shared__ __align__(1024) unsigned char shared[];
// CHECK-NEXT:   u32 shared_base = shared_window(shared);
// CHECK-NEXT:   u32 tile = shared_base;
// CHECK-NEXT:   u32 address = tile;
// CHECK-NEXT:   cp_async_16_if(address, A + at, in);
// CHECK-NEXT:   cp_async_16(address, A + at);
// CHECK-NEXT:   cp_async_4_if(address, A + at, in);
// CHECK-NEXT:   cp_async_commit();
// CHECK-NEXT:   cp_async_wait<1>();
// CHECK-NEXT:   named_barrier<2, 64>();
// CHECK-NEXT:   __syncwarp();
// CHECK-NEXT: }
