// RUN: polyc-opt %s -t cuda | filecheck %s

// A ring's barriers, and TMA of each rank with the innermost coordinate first.
gpu.module @tma arch "sm_90a" symbols [M, N] {
  gpu.kernel @load(%one: !gpu.tensor_map<[64], f16, swizzle 0> = tensor_map 0, %two: !gpu.tensor_map<[128, 64], f16, swizzle 128> = tensor_map 1, %five: !gpu.tensor_map<[1, 1, 1, 8, 64], f16, swizzle 128> = tensor_map 2, %i: index = symbol M, %j: index = symbol N) threads 128 shared_bytes 16416 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %tile = gpu.shared_tile at 0 : !gpu.shared<[128, 64], f16, swizzle 128>
    %full = gpu.mbarrier at 16384 : !gpu.mbarrier<4>
    %address = gpu.shared_address %tile[%c0] : !gpu.shared<[128, 64], f16, swizzle 128>
    gpu.set_max_registers "decrease" 40
    gpu.set_max_registers "increase" 232
    gpu.prefetch_tensor_map %two : !gpu.tensor_map<[128, 64], f16, swizzle 128>
    gpu.mbarrier_init %full[%c3] count 2 : !gpu.mbarrier<4>
    gpu.fence_mbarrier_init
    gpu.mbarrier_expect %full[%j] bytes 16384 : !gpu.mbarrier<4>
    gpu.mbarrier_announce %full[%j] bytes 8192 : !gpu.mbarrier<4>
    gpu.tma_load %one[%i] to %address, %full[%j] : !gpu.tensor_map<[64], f16, swizzle 0>, !gpu.mbarrier<4>
    gpu.tma_load %two[%i, %j] to %address, %full[%j] : !gpu.tensor_map<[128, 64], f16, swizzle 128>, !gpu.mbarrier<4>
    gpu.tma_load %five[%c0, %c1, %c3, %i, %j] to %address, %full[%c0] : !gpu.tensor_map<[1, 1, 1, 8, 64], f16, swizzle 128>, !gpu.mbarrier<4>
    gpu.mbarrier_wait %full[%j] parity %c1 : !gpu.mbarrier<4>
    gpu.mbarrier_arrive %full[%j] : !gpu.mbarrier<4>
    gpu.fence_proxy_async
    gpu.return
  }
}

// CHECK: struct __align__(64) TensorMap {
// CHECK-NEXT:   u64 v[16];
// CHECK-NEXT: };
// CHECK: template <int count>
// CHECK-NEXT: __device__ __forceinline__ void decrease_registers() {
// CHECK-NEXT:   asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "n"(count));
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void prefetch_tensor_map(const TensorMap* map) {
// CHECK-NEXT:   asm volatile("prefetch.tensormap [%0];"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "l"(map)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void mbarrier_init(u32 barrier, u32 count) {
// CHECK-NEXT:   asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(barrier), "r"(count)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void fence_mbarrier_init() {
// CHECK-NEXT:   asm volatile("fence.mbarrier_init.release.cluster;"
// CHECK-NEXT:       :
// CHECK-NEXT:       :
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void mbarrier_expect(u32 barrier, u32 bytes) {
// CHECK-NEXT:   asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(barrier), "r"(bytes)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void mbarrier_announce(u32 barrier, u32 bytes) {
// CHECK-NEXT:   asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(barrier), "r"(bytes)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void tma_load_2d(u32 address, const TensorMap* map, u32 barrier, int c0, int c1) {
// CHECK-NEXT:   asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(address), "l"(map), "r"(barrier), "r"(c0), "r"(c1)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void tma_load_5d(u32 address, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3, int c4) {
// CHECK-NEXT:   asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(address), "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void mbarrier_wait(u32 barrier, u32 parity) {
// CHECK-NEXT:   asm volatile("{\n"
// CHECK-NEXT:       ".reg .pred done;\n"
// CHECK-NEXT:       "WAIT:\n"
// CHECK-NEXT:       "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, 0x989680;\n"
// CHECK-NEXT:       "@done bra DONE;\n"
// CHECK-NEXT:       "bra WAIT;\n"
// CHECK-NEXT:       "DONE:\n"
// CHECK-NEXT:       "}"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(barrier), "r"(parity)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void mbarrier_arrive(u32 barrier) {
// CHECK-NEXT:   asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(barrier)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void fence_proxy_async() {
// CHECK-NEXT:   asm volatile("fence.proxy.async.shared::cta;"
// CHECK-NEXT:       :
// CHECK-NEXT:       :
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: extern "C" __global__ void __launch_bounds__(128, 1)
// CHECK-NEXT: load(
// CHECK-NEXT:     const __grid_constant__ TensorMap one,
// CHECK-NEXT:     const __grid_constant__ TensorMap two,
// CHECK-NEXT:     const __grid_constant__ TensorMap five,
// CHECK-NEXT:     int i,
// CHECK-NEXT:     int j) {
// CHECK-NEXT:   extern __shared__ __align__(1024) unsigned char shared[];
// CHECK-NEXT:   u32 shared_base = shared_window(shared);
// CHECK-NEXT:   u32 tile = shared_base;
// CHECK-NEXT:   u32 full = shared_base + 16384;
// CHECK-NEXT:   u32 address = tile;
// CHECK-NEXT:   decrease_registers<40>();
// CHECK-NEXT:   increase_registers<232>();
// CHECK-NEXT:   prefetch_tensor_map(&two);
// CHECK-NEXT:   mbarrier_init(full + 24, 2);
// CHECK-NEXT:   fence_mbarrier_init();
// CHECK-NEXT:   mbarrier_expect(full + j * 8, 16384);
// CHECK-NEXT:   mbarrier_announce(full + j * 8, 8192);
// CHECK-NEXT:   tma_load_1d(address, &one, full + j * 8, i);
// CHECK-NEXT:   tma_load_2d(address, &two, full + j * 8, j, i);
// CHECK-NEXT:   tma_load_5d(address, &five, full, j, i, 3, 1, 0);
// CHECK-NEXT:   mbarrier_wait(full + j * 8, 1);
// CHECK-NEXT:   mbarrier_arrive(full + j * 8);
// CHECK-NEXT:   fence_proxy_async();
// CHECK-NEXT: }
