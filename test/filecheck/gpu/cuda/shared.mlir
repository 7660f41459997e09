// RUN: polyc-opt %s -t cuda | filecheck %s

// The window's base is taken once; tiles and rings are byte offsets from it.
gpu.module @shared arch "sm_80" symbols [M] {
  gpu.kernel @stage(%slot: index = symbol M) threads 128 shared_bytes 49152 {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %first = gpu.shared_tile at 0 : !gpu.shared<[64, 64], f16, swizzle 128, ring 4>
    %second = gpu.shared_tile at 32768 : !gpu.shared<[16, 64], f32, swizzle 0, ring 4>
    %a = gpu.shared_address %first[%slot] : !gpu.shared<[64, 64], f16, swizzle 128, ring 4>
    %b = gpu.shared_address %second[%c2] : !gpu.shared<[16, 64], f32, swizzle 0, ring 4>
    %c = gpu.shared_address %second[%c0] : !gpu.shared<[16, 64], f32, swizzle 0, ring 4>
    %x = gpu.load_shared %a : vector<8xbf16>
    gpu.store_shared %x, %b : vector<8xbf16>
    %y = gpu.load_shared %c : f32
    gpu.store_shared %y, %a : f32
    %z = gpu.load_shared %c : vector<2xi64>
    gpu.store_shared %z, %a : vector<2xi64>
    %w = gpu.load_shared %c : i8
    gpu.store_shared %w, %a : i8
    gpu.barrier
    gpu.return
  }
}

// CHECK: __device__ __forceinline__ u32 shared_window(const void* pointer) {
// CHECK-NEXT:   u32 address;
// CHECK-NEXT:   asm("{\n"
// CHECK-NEXT:       ".reg .u64 window;\n"
// CHECK-NEXT:       "cvta.to.shared.u64 window, %1;\n"
// CHECK-NEXT:       "cvt.u32.u64 %0, window;\n"
// CHECK-NEXT:       "}"
// CHECK-NEXT:       : "=r"(address)
// CHECK-NEXT:       : "l"(pointer));
// CHECK-NEXT:   return address;
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ bf16x8 load_shared_bf16x8(u32 address) {
// CHECK-NEXT:   bf16x8 r;
// CHECK-NEXT:   asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
// CHECK-NEXT:       : "=r"(r.v[0]), "=r"(r.v[1]), "=r"(r.v[2]), "=r"(r.v[3])
// CHECK-NEXT:       : "r"(address)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT:   return r;
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void store_shared_bf16x8(u32 address, bf16x8 value) {
// CHECK-NEXT:   asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(address), "r"(value.v[0]), "r"(value.v[1]), "r"(value.v[2]), "r"(value.v[3])
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void store_shared_i64x2(u32 address, i64x2 value) {
// CHECK-NEXT:   asm volatile("st.shared.v2.b64 [%0], {%1, %2};"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(address), "l"(value.v[0]), "l"(value.v[1])
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ u8 load_shared_u8(u32 address) {
// CHECK-NEXT:   u32 r;
// CHECK-NEXT:   asm volatile("ld.shared.u8 %0, [%1];"
// CHECK-NEXT:       : "=r"(r)
// CHECK-NEXT:       : "r"(address)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT:   return (u8)r;
// CHECK-NEXT: }
// CHECK: extern "C" __global__ void __launch_bounds__(128, 1)
// CHECK-NEXT: stage(int slot) {
// CHECK-NEXT:   extern __shared__ __align__(1024) unsigned char shared[];
// CHECK-NEXT:   u32 shared_base = shared_window(shared);
// CHECK-NEXT:   u32 first = shared_base;
// CHECK-NEXT:   u32 second = shared_base + 32768;
// CHECK-NEXT:   u32 a = first + slot * 8192;
// CHECK-NEXT:   u32 b = second + 8192;
// CHECK-NEXT:   u32 c = second;
// CHECK-NEXT:   bf16x8 x = load_shared_bf16x8(a);
// CHECK-NEXT:   store_shared_bf16x8(b, x);
// CHECK-NEXT:   float y = load_shared_f32(c);
// CHECK-NEXT:   store_shared_f32(a, y);
// CHECK-NEXT:   i64x2 z = load_shared_i64x2(c);
// CHECK-NEXT:   store_shared_i64x2(a, z);
// CHECK-NEXT:   u8 w = load_shared_u8(c);
// CHECK-NEXT:   store_shared_u8(a, w);
// CHECK-NEXT:   __syncthreads();
// CHECK-NEXT: }
