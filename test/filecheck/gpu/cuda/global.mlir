// RUN: polyc-opt %s -t cuda | filecheck %s

// Loads of what the kernel never stores to are ld.global.nc; one instruction an access.
gpu.module @global arch "sm_80" symbols [M] {
  gpu.kernel @copy(%A: !gpu.global<[M], f16, align 16> = tensor 0, %B: !gpu.global<[M], f32, align 16> = tensor 1, %s: !gpu.global<[], f32> = tensor 2, %C: !gpu.global<[M], f16, align 16> = tensor 3, %M: index = symbol M) threads 128 {
    %i = gpu.thread_id
    %in = arith.cmpi slt, %i, %M : index
    %x = gpu.load_global %A[%i : index] : !gpu.global<[M], f16, align 16> -> vector<8xf16>
    gpu.store_global %x, %C[%i : index] : vector<8xf16>, !gpu.global<[M], f16, align 16>
    %y = gpu.load_global %A[%i : index] if %in : !gpu.global<[M], f16, align 16> -> f16
    gpu.store_global %y, %C[%i : index] if %in : f16, !gpu.global<[M], f16, align 16>
    %z = gpu.load_global %C[%i : index] : !gpu.global<[M], f16, align 16> -> vector<2xf16>
    gpu.store_global %z, %C[%i : index] : vector<2xf16>, !gpu.global<[M], f16, align 16>
    %w = gpu.load_global %B[%i : index] if %in : !gpu.global<[M], f32, align 16> -> vector<4xf32>
    %w3 = gpu.unpack %w element 3 : vector<4xf32> -> f32
    %r = gpu.load_global %s[ : ] : !gpu.global<[], f32> -> f32
    %sum = arith.addf %w3, %r : f32
    %h = arith.truncf %sum : f32 to f16
    gpu.store_global %h, %C[%i : index] : f16, !gpu.global<[M], f16, align 16>
    // A promise of its author's, which no row's length gives.
    %behind = gpu.address_remainder %C of 4 : !gpu.global<[M], f16, align 16>
    %at = arith.addi %i, %behind : index
    gpu.store_global %z, %C[%at : index] aligned 4 : vector<2xf16>, !gpu.global<[M], f16, align 16>
    // What is read where nothing is read, in each element.
    %f = gpu.load_global %A[%i : index] if %in else 0xFC00 : f16 : !gpu.global<[M], f16, align 16> -> vector<4xf16>
    gpu.store_global %f, %C[%i : index] : vector<4xf16>, !gpu.global<[M], f16, align 16>
    // What the L2 cache may let go first.
    %g = gpu.load_global %A[%i : index] if %in cache "evict_first" : !gpu.global<[M], f16, align 16> -> f16
    gpu.store_global %g, %C[%i : index] : f16, !gpu.global<[M], f16, align 16>
    gpu.return
  }
}

// CHECK: struct __align__(4) f16x2 {
// CHECK-NEXT:   u32 v[1];
// CHECK-NEXT: };
// CHECK: struct __align__(16) f16x8 {
// CHECK-NEXT:   u32 v[4];
// CHECK-NEXT: };
// CHECK: struct __align__(16) f32x4 {
// CHECK-NEXT:   float v[4];
// CHECK-NEXT: };
// CHECK: __device__ __forceinline__ f16x8 load_global_nc_f16x8(const void* pointer) {
// CHECK-NEXT:   f16x8 r;
// CHECK-NEXT:   asm("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
// CHECK-NEXT:       : "=r"(r.v[0]), "=r"(r.v[1]), "=r"(r.v[2]), "=r"(r.v[3])
// CHECK-NEXT:       : "l"(pointer));
// CHECK-NEXT:   return r;
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void store_global_f16x8(void* pointer, f16x8 value) {
// CHECK-NEXT:   asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "l"(pointer), "r"(value.v[0]), "r"(value.v[1]), "r"(value.v[2]), "r"(value.v[3])
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ f16 load_global_nc_f16_if(const void* pointer, bool valid) {
// CHECK-NEXT:   f16 r;
// CHECK-NEXT:   asm("{\n"
// CHECK-NEXT:       ".reg .pred p;\n"
// CHECK-NEXT:       "setp.ne.b32 p, %2, 0;\n"
// CHECK-NEXT:       "mov.b16 %0, 0;\n"
// CHECK-NEXT:       "@p ld.global.nc.b16 %0, [%1];\n"
// CHECK-NEXT:       "}"
// CHECK-NEXT:       : "=h"(r)
// CHECK-NEXT:       : "l"(pointer), "r"((u32)valid));
// CHECK-NEXT:   return r;
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ f16x2 load_global_f16x2(const void* pointer) {
// CHECK-NEXT:   f16x2 r;
// CHECK-NEXT:   asm volatile("ld.global.b32 %0, [%1];"
// CHECK-NEXT:       : "=r"(r.v[0])
// CHECK-NEXT:       : "l"(pointer)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT:   return r;
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ f32x4 load_global_nc_f32x4_if(const void* pointer, bool valid) {
// CHECK-NEXT:   f32x4 r;
// CHECK-NEXT:   asm("{\n"
// CHECK-NEXT:       ".reg .pred p;\n"
// CHECK-NEXT:       "setp.ne.b32 p, %5, 0;\n"
// CHECK-NEXT:       "mov.b32 %0, 0;\n"
// CHECK-NEXT:       "mov.b32 %1, 0;\n"
// CHECK-NEXT:       "mov.b32 %2, 0;\n"
// CHECK-NEXT:       "mov.b32 %3, 0;\n"
// CHECK-NEXT:       "@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\n"
// CHECK-NEXT:       "}"
// CHECK-NEXT:       : "=f"(r.v[0]), "=f"(r.v[1]), "=f"(r.v[2]), "=f"(r.v[3])
// CHECK-NEXT:       : "l"(pointer), "r"((u32)valid));
// CHECK-NEXT:   return r;
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ f16 load_global_nc_f16_if_evict_first(const void* pointer, bool valid) {
// CHECK-NEXT:   f16 r;
// CHECK-NEXT:   asm("{\n"
// CHECK-NEXT:       ".reg .b64 policy;\n"
// CHECK-NEXT:       "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
// CHECK-NEXT:       "{\n"
// CHECK-NEXT:       ".reg .pred p;\n"
// CHECK-NEXT:       "setp.ne.b32 p, %2, 0;\n"
// CHECK-NEXT:       "mov.b16 %0, 0;\n"
// CHECK-NEXT:       "@p ld.global.nc.L2::cache_hint.b16 %0, [%1], policy;\n"
// CHECK: extern "C" __global__ void __launch_bounds__(128, 1)
// CHECK-NEXT: copy(
// CHECK-NEXT:     const f16* __restrict__ A,
// CHECK-NEXT:     const float* __restrict__ B,
// CHECK-NEXT:     const float* __restrict__ s,
// CHECK-NEXT:     f16* __restrict__ C,
// CHECK-NEXT:     int M) {
// CHECK-NEXT:   int i = (int)threadIdx.x;
// CHECK-NEXT:   bool in = i < M;
// CHECK-NEXT:   f16x8 x = load_global_nc_f16x8(A + i);
// CHECK-NEXT:   store_global_f16x8(C + i, x);
// CHECK-NEXT:   f16 y = load_global_nc_f16_if(A + i, in);
// CHECK-NEXT:   if (in) store_global_f16(C + i, y);
// CHECK-NEXT:   f16x2 z = load_global_f16x2(C + i);
// CHECK-NEXT:   store_global_f16x2(C + i, z);
// CHECK-NEXT:   f32x4 w = load_global_nc_f32x4_if(B + i, in);
// CHECK-NEXT:   float w3 = w.v[3];
// CHECK-NEXT:   float r = load_global_nc_f32(s);
// CHECK-NEXT:   float sum = w3 + r;
// CHECK-NEXT:   f16 h = f32_to_f16(sum);
// CHECK-NEXT:   store_global_f16(C + i, h);
// CHECK-NEXT:   int behind = (int)((unsigned long long)C & 3u);
// CHECK-NEXT:   int at = i + behind;
// CHECK-NEXT:   store_global_f16x2(C + at, z);
// CHECK-NEXT:   f16x4 f = load_global_nc_f16x4_if_else(A + i, in, 0xfc00fc00u);
// CHECK-NEXT:   store_global_f16x4(C + i, f);
// CHECK-NEXT:   f16 g = load_global_nc_f16_if_evict_first(A + i, in);
// CHECK-NEXT:   store_global_f16(C + i, g);
// CHECK-NEXT: }
