// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: a shared access moves 12 bytes; it can move 1, 2, 4, 8 or 16
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    %c = arith.constant 0 : i32
    %x = gpu.load_shared %c : vector<3xf32>
    gpu.return
  }
}

// -----

// CHECK: a thread's vectors have one axis, vector<2x2xf32> has 2
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    %c = arith.constant 0 : i32
    %x = gpu.load_shared %c : vector<2x2xf32>
    gpu.return
  }
}

// -----

// CHECK: a shared access moves 32 bytes; it can move 1, 2, 4, 8 or 16
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    %c = arith.constant 0 : i32
    %x = arith.constant dense<0.0> : vector<8xf32>
    gpu.store_shared %x, %c : vector<8xf32>
    gpu.return
  }
}

// -----

// CHECK: what a load has where it reads nothing is f32; the elements of !gpu.global<[M], f16> are f16, of which a number that is no condition
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%A: !gpu.global<[M], f16> = tensor 0, %i: index = symbol M) threads 128 {
    %in = arith.cmpi slt, %i, %i : index
    %x = gpu.load_global %A[%i : index] if %in else 1.000000e+00 : f32 : !gpu.global<[M], f16> -> f16
    gpu.return
  }
}

// -----

// CHECK: a tensor of rank 2 is accessed at 2 coordinates of type index, or at one i64 offset, not at (index)
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16> = tensor 0, %i: index = symbol M) threads 128 {
    %x = gpu.load_global %A[%i : index] : !gpu.global<[M, K], f16> -> f16
    gpu.return
  }
}

// -----

// CHECK: a tensor of rank 2 is accessed at 2 coordinates of type index, or at one i64 offset, not at (i64, i64)
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16> = tensor 0, %i: i64 = symbol M) threads 128 {
    %x = gpu.load_global %A[%i, %i : i64, i64] : !gpu.global<[M, K], f16> -> f16
    gpu.return
  }
}

// -----

// CHECK: elements of !gpu.global<[M], f16> are f16, not f32
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M], f16> = tensor 0, %i: index = symbol M) threads 128 {
    %x = gpu.load_global %A[%i : index] : !gpu.global<[M], f16> -> f32
    gpu.return
  }
}

// -----

// CHECK: a global access moves 32 bytes; it can move 1, 2, 4, 8 or 16
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M], f16, align 16> = tensor 0, %i: index = symbol M) threads 128 {
    %x = gpu.load_global %A[%i : index] : !gpu.global<[M], f16, align 16> -> vector<16xf16>
    gpu.return
  }
}

// -----

// CHECK: a cache hint is evict_first or evict_last, not "soon"
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M], f16, align 4> = tensor 0, %i: index = symbol M) threads 128 {
    %x = gpu.load_global %A[%i : index] cache "soon" : !gpu.global<[M], f16, align 4> -> f16
    gpu.return
  }
}

// -----

// CHECK: an access of 8 bytes needs rows aligned to 8; !gpu.global<[M], f16, align 4> promises 4
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M], f16, align 4> = tensor 0, %i: index = symbol M) threads 128 {
    %x = gpu.load_global %A[%i : index] : !gpu.global<[M], f16, align 4> -> vector<4xf16>
    gpu.return
  }
}

// -----

// CHECK: an access of 4 bytes needs rows aligned to 4; !gpu.global<[M], f16> promises 2
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M], f16> = tensor 0, %i: index = symbol M, %x: vector<2xf16> = symbol M) threads 128 {
    gpu.store_global %x, %A[%i : index] : vector<2xf16>, !gpu.global<[M], f16>
    gpu.return
  }
}

// -----

// CHECK: an access of 8 bytes needs rows aligned to 8; !gpu.global<[M], f16> promises 4
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M], f16> = tensor 0, %i: index = symbol M, %x: vector<4xf16> = symbol M) threads 128 {
    gpu.store_global %x, %A[%i : index] aligned 4 : vector<4xf16>, !gpu.global<[M], f16>
    gpu.return
  }
}

// -----

// CHECK: an address is a multiple of powers of two, not of 6
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M], f16> = tensor 0) threads 128 {
    %behind = gpu.address_remainder %A of 6 : !gpu.global<[M], f16>
    gpu.return
  }
}

// -----

// CHECK: (f32, f32) does not pack into vector<4xf32>
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%x: f32 = symbol M) threads 128 {
    %v = gpu.pack %x, %x : f32, f32 -> vector<4xf32>
    gpu.return
  }
}

// -----

// CHECK: (f32, f32) does not pack into vector<2xi32>
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%x: f32 = symbol M) threads 128 {
    %v = gpu.pack %x, %x : f32, f32 -> vector<2xi32>
    gpu.return
  }
}

// -----

// CHECK: element 2 of vector<2xf32> is not a f32
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%x: vector<2xf32> = symbol M) threads 128 {
    %v = gpu.unpack %x element 2 : vector<2xf32> -> f32
    gpu.return
  }
}

// -----

// CHECK: element 0 of vector<2xf32> is not a f16
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%x: vector<2xf32> = symbol M) threads 128 {
    %v = gpu.unpack %x element 0 : vector<2xf32> -> f16
    gpu.return
  }
}

// -----

// CHECK: cp.async copies 4, 8 or 16 bytes, not 2
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M], f16, align 16> = tensor 0, %i: index = symbol M, %a: i32 = symbol M) threads 128 {
    gpu.cp_async %a, %A[%i : index] bytes 2 : !gpu.global<[M], f16, align 16>
    gpu.return
  }
}

// -----

// CHECK: cp.async of 16 bytes needs rows aligned to 16; !gpu.global<[M], f16> promises 2: use a narrower copy or the register loader
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M], f16> = tensor 0, %i: index = symbol M, %a: i32 = symbol M) threads 128 {
    gpu.cp_async %a, %A[%i : index] bytes 16 : !gpu.global<[M], f16>
    gpu.return
  }
}

// -----

// CHECK: -1 groups cannot be pending
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    gpu.cp_async_wait -1
    gpu.return
  }
}

// -----

// CHECK: a named barrier is 1 to 15, not 0
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    gpu.named_barrier 0 threads 128
    gpu.return
  }
}

// -----

// CHECK: 100 threads do not meet at a barrier: whole warps, 32 to 1024
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    gpu.named_barrier 1 threads 100
    gpu.return
  }
}

// -----

// CHECK: an mbarrier counts 1 to 2^20 - 1, not 0
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%i: index = symbol M) threads 128 {
    %b = gpu.mbarrier : !gpu.mbarrier<4>
    gpu.mbarrier_init %b[%i] count 0 : !gpu.mbarrier<4>
    gpu.return
  }
}

// -----

// CHECK: an mbarrier expects 0 to 2^20 - 1 bytes, not 1048576
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%i: index = symbol M) threads 128 {
    %b = gpu.mbarrier : !gpu.mbarrier<4>
    gpu.mbarrier_expect %b[%i] bytes 1048576 : !gpu.mbarrier<4>
    gpu.return
  }
}

// -----

// CHECK: an mbarrier expects 0 to 2^20 - 1 bytes, not 1048577
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%i: index = symbol M) threads 128 {
    %b = gpu.mbarrier : !gpu.mbarrier<4>
    gpu.mbarrier_announce %b[%i] bytes 1048577 : !gpu.mbarrier<4>
    gpu.return
  }
}

// -----

// CHECK: an mbarrier array has at least one, not 0
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    %b = gpu.mbarrier : !gpu.mbarrier<0>
    gpu.return
  }
}

// -----

// CHECK: registers "increase" or "decrease", not "more"
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    gpu.set_max_registers "more" 40
    gpu.return
  }
}

// -----

// CHECK: setmaxnreg takes 24 to 256 in steps of 8, not 20
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    gpu.set_max_registers "decrease" 20
    gpu.return
  }
}

// -----

// CHECK: a box of rank 2 starts at 2 coordinates, not 1
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%map: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 0, %i: index = symbol M, %a: i32 = symbol M) threads 128 {
    %b = gpu.mbarrier : !gpu.mbarrier<4>
    gpu.tma_load %map[%i] to %a, %b[%i] : !gpu.tensor_map<[64, 64], f16, swizzle 128>, !gpu.mbarrier<4>
    gpu.return
  }
}

// -----

// CHECK: the destination of ldmatrix is a memref of i32 registers, not memref<4xi32>
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%i: index = symbol M, %a: i32 = symbol M) threads 128 {
    %r = memref.alloca() : memref<4xi32>
    gpu.ldmatrix %a to %r[%i] : memref<4xi32>
    gpu.return
  }
}

// -----

// CHECK: the destination of ldmatrix is a memref of i32 registers, not memref<4xf32, #gpu<space register>>
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%i: index = symbol M, %a: i32 = symbol M) threads 128 {
    %r = memref.alloca() : memref<4xf32, #gpu<space register>>
    gpu.ldmatrix %a to %r[%i] : memref<4xf32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: the accumulator of mma is a memref of f32 registers, not memref<4xi32, #gpu<space register>>
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%i: index = symbol M) threads 128 {
    %r = memref.alloca() : memref<4xi32, #gpu<space register>>
    gpu.mma_sync %r[%i], %r[%i], %r[%i] element f16 : memref<4xi32, #gpu<space register>>, memref<4xi32, #gpu<space register>>, memref<4xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: tensor-core operands are f16 or bf16, not f32
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%i: index = symbol M) threads 128 {
    %r = memref.alloca() : memref<4xi32, #gpu<space register>>
    %acc = memref.alloca() : memref<4xf32, #gpu<space register>>
    gpu.mma_sync %r[%i], %r[%i], %acc[%i] element f32 : memref<4xi32, #gpu<space register>>, memref<4xi32, #gpu<space register>>, memref<4xf32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: the leading offset is a multiple of 16 below 2^18, not 8
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%a: i32 = symbol M) threads 128 {
    %d = gpu.wgmma_descriptor %a leading 8 stride 1024 swizzle 128
    gpu.return
  }
}

// -----

// CHECK: the stride offset is a multiple of 16 below 2^18, not 262144
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%a: i32 = symbol M) threads 128 {
    %d = gpu.wgmma_descriptor %a leading 16 stride 262144 swizzle 128
    gpu.return
  }
}

// -----

// CHECK: a swizzle is 0, 32, 64 or 128 bytes, not 16
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%a: i32 = symbol M) threads 128 {
    %d = gpu.wgmma_descriptor %a leading 16 stride 1024 swizzle 16
    gpu.return
  }
}

// -----

// CHECK: wgmma's N is 8 to 256 in steps of 8, not 12
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%d: i64 = symbol M) threads 128 {
    %acc = memref.alloca() : memref<4xf32, #gpu<space register>>
    gpu.wgmma n 12 %d plus 0, %d plus 0, %acc element f16 : memref<4xf32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: m64n16k16 accumulates in 8 registers a thread, not memref<4xf32, #gpu<space register>>
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%d: i64 = symbol M) threads 128 {
    %acc = memref.alloca() : memref<4xf32, #gpu<space register>>
    gpu.wgmma n 16 %d plus 0, %d plus 0, %acc element f16 : memref<4xf32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: a descriptor advances by multiples of 16, not 8
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%d: i64 = symbol M) threads 128 {
    %acc = memref.alloca() : memref<4xf32, #gpu<space register>>
    gpu.wgmma n 8 %d plus 8, %d plus 0, %acc element f16 : memref<4xf32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: tensor-core operands are f16 or bf16, not i32
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%d: i64 = symbol M) threads 128 {
    %acc = memref.alloca() : memref<4xf32, #gpu<space register>>
    gpu.wgmma n 8 %d plus 0, %d plus 0, %acc element i32 : memref<4xf32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: the accumulator of wgmma is a memref of f32 registers, not memref<4xi32, #gpu<space register>>
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%d: i64 = symbol M) threads 128 {
    %acc = memref.alloca() : memref<4xi32, #gpu<space register>>
    gpu.wgmma n 8 %d plus 0, %d plus 0, %acc element f16 : memref<4xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: what a register fence settles is a memref of f32 registers, not memref<4xi32, #gpu<space register>>
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    %a = memref.alloca() : memref<4xi32, #gpu<space register>>
    gpu.register_fence %a : memref<4xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: wgmma waits for 0 to 7 groups, not 8
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    gpu.wgmma_wait 8
    gpu.return
  }
}

// -----

// CHECK: align 3 is not a power of two that holds whole 2-byte elements
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M], f16, align 3> = tensor 0) threads 128 {
    gpu.return
  }
}

// -----

// CHECK: what a map rounds to TF32 is f32, and its elements are f16
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k(%A: !gpu.tensor_map<[64, 64], f16, swizzle 128, tf32> = tensor 0) threads 128 {
    gpu.return
  }
}

// -----

// CHECK: a TMA swizzle is 0, 32, 64 or 128 bytes, not 16
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.tensor_map<[64, 64], f16, swizzle 16> = tensor 0) threads 128 {
    gpu.return
  }
}

// -----

// CHECK: TMA box sizes are 1 to 256, not [512, 64]
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.tensor_map<[512, 64], f16, swizzle 128> = tensor 0) threads 128 {
    gpu.return
  }
}

// -----

// CHECK: the inner box is 256 bytes; it must be a multiple of 16 and at most the swizzle's 128
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.tensor_map<[64, 128], f16, swizzle 128> = tensor 0) threads 128 {
    gpu.return
  }
}

// -----

// CHECK: a shared tile has positive sizes and ring depth, not [64, 0] and 1
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[64, 0], f16>
    gpu.return
  }
}

// -----

// CHECK: a swizzle spans 0, 32, 64 or 128 bytes, not 8
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 8>
    gpu.return
  }
}

// -----

// CHECK: rows of 80 bytes do not split into panels of 128 bytes
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[64, 40], f16, swizzle 128>
    gpu.return
  }
}

// -----

// CHECK: a ring has 1 to 8 slots, not 9
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    %f = gpu.fragment : !gpu.ring<9>
    gpu.return
  }
}

// -----

// CHECK: arch is "sm_80" or "sm_90a", not "sm_70"
gpu.module @m arch "sm_70" symbols [] {
}

// -----

// CHECK: a CTA has 32 to 1024 threads in whole warps, not 100
gpu.module @m arch "sm_80" symbols [] {
  gpu.kernel @k() threads 100 {
    gpu.return
  }
}

// -----

// CHECK: 1 bindings do not fit 0 kernel arguments
gpu.module @m arch "sm_80" symbols [] {
  "gpu.kernel"() <{sym_name = "k", bindings = [#gpu.bind<tensor 0>], threads = 32 : index, blocks_per_sm = 1 : index}> ({
    gpu.return
  }) : () -> ()
}

// -----

// CHECK: an argument binds tensor, workspace, tensor_map, symbol, not size
gpu.module @m arch "sm_80" symbols [] {
  gpu.kernel @k(%a: index = size M) threads 32 {
    gpu.return
  }
}

// -----

// CHECK: Redefinition of symbol "k"
gpu.module @m arch "sm_80" symbols [] {
  gpu.kernel @k(%a: index = symbol M) threads 32 {
    gpu.return
  }
  gpu.kernel @k(%a: index = symbol M) threads 32 {
    gpu.return
  }
}

// -----

// CHECK: expects at least a terminator
gpu.module @m arch "sm_80" symbols [] {
  gpu.kernel @k() threads 32 {
  }
}

// -----

// CHECK: terminat
gpu.module @m arch "sm_80" symbols [] {
  gpu.kernel @k() threads 32 {
    gpu.barrier
  }
}

// -----

// CHECK: a signature has one name, type and dictionary a tensor
gpu.module @m arch "sm_80" symbols [] {
  "gpu.dispatch"() <{arg_names = ["A"], arg_types = [], arg_attrs = [], num_inputs = 0 : index}> ({
  ^bb0:
  }) : () -> ()
}

// -----

// CHECK: 1 of 0 tensors cannot be inputs
gpu.module @m arch "sm_80" symbols [] {
  "gpu.dispatch"() <{arg_names = [], arg_types = [], arg_attrs = [], num_inputs = 1 : index}> ({
  ^bb0:
  }) : () -> ()
}

// -----

// CHECK: gpu.dispatch holds gpu.launch and gpu.sequence only, not gpu.barrier
gpu.module @m arch "sm_80" symbols [] {
  gpu.dispatch () -> () {
    gpu.barrier
  }
}

// -----

// CHECK: a signature is of !gpu.global types
gpu.module @m arch "sm_80" symbols [M] {
  gpu.dispatch (A: f32) -> () {
  }
}

// -----

// CHECK: 2 alignments do not fit 1 tensors
gpu.module @m arch "sm_80" symbols [M] {
  gpu.dispatch (A: !gpu.global<[M], f16>) -> () {
    gpu.launch @k align [2, 2] grid [1]
  }
}

// -----

// CHECK: gpu.module @m has no kernel @k
gpu.module @m arch "sm_80" symbols [M] {
  gpu.dispatch (A: !gpu.global<[M], f16>) -> () {
    gpu.launch @k align [2] grid [1]
  }
}

// -----

// CHECK: gpu.return
gpu.module @m arch "sm_80" symbols [] {
  gpu.return
}

// -----

// CHECK: gpu.kernel
gpu.kernel @k() threads 32 {
  gpu.return
}

// -----

// CHECK: kernel @k binds tensor 3 of a signature of 1 tensors
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%A: !gpu.global<[M], f32> = tensor 3) threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.launch @k align [4] grid [M]
  }
}

// -----

// CHECK: kernel @k binds the symbol N, which is none of [M]
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%N: index = symbol N) threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.launch @k align [4] grid [M]
  }
}

// -----

// CHECK: the assumption N >= 1 names N, which is not among the symbols M of gpu.module @m
gpu.module @m arch "sm_80" symbols [M] assuming (N >= 1) {
}

// -----

// CHECK: gpu.module @m has 2 gpu.dispatch; it has one
gpu.module @m arch "sm_80" symbols [M] {
  gpu.dispatch () -> () {
  }
  gpu.dispatch () -> () {
  }
}

// -----

// CHECK: the assumption N >= 1 names N, which is not among the symbols M of gpu.module @m
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k() threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.launch @k when (N >= 1) align [4] grid [M]
  }
}

// -----

// CHECK: the grid [M, N] of @k names N, which is none of [M]
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k() threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.launch @k align [4] grid [M, N]
  }
}

// -----

// CHECK: wgmma takes 4 registers from 8 on, and there are 8
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%d: i64 = symbol M) threads 128 {
    %acc = memref.alloca() : memref<32xf32, #gpu<space register>>
    %p = memref.alloca() : memref<8xi32, #gpu<space register>>
    gpu.wgmma_registers n 64 %p from 8, %d plus 0, %acc element f16 : memref<8xi32, #gpu<space register>>, memref<32xf32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: 100 threads do not meet at a barrier: whole warps, 32 to 1024
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k() threads 128 {
    gpu.named_barrier_arrive 3 threads 100
    gpu.return
  }
}

// -----

// CHECK: @k's tensor of !gpu.global<[M, N], f32> names N, which is none of [M]
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%A: !gpu.global<[M, N], f32> = tensor 0) threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M, 4], f32>) -> () {
    gpu.launch @k align [4] grid [M]
  }
}

// -----

// CHECK: the signature's tensor of !gpu.global<[N], f32> names N, which is none of [M]
gpu.module @m arch "sm_80" symbols [M] {
  gpu.dispatch (A: !gpu.global<[N], f32>) -> () {
  }
}

// -----

// CHECK: a named barrier is 1 to 15, not 16
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M, %c: i1 = symbol M) threads 128 {
    %any = gpu.barrier_any %c at 16 threads 128
    gpu.return
  }
}

// -----

// CHECK: barrier 0 is the CTA's own, and nothing is added to it
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M, %c: i1 = symbol M) threads 128 {
    %any = gpu.barrier_any %c at 0 plus %i threads 128
    gpu.return
  }
}

// -----

// CHECK: 100 threads do not meet at a barrier: whole warps, 32 to 1024
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M, %c: i1 = symbol M) threads 128 {
    %any = gpu.barrier_any %c at 0 threads 100
    gpu.return
  }
}

// -----

// CHECK: 2048 threads do not meet at a barrier: whole warps, 32 to 1024
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M, %c: i1 = symbol M) threads 128 {
    %any = gpu.barrier_any %c at 3 threads 2048
    gpu.return
  }
}

// -----

// CHECK: i1
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 128 {
    %any = "gpu.barrier_any"(%i) <{id = 1 : index, threads = 128 : index, operandSegmentSizes = array<i32: 1, 0>}> : (index) -> i1
    gpu.return
  }
}

// -----

// CHECK: index
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%c: i1 = symbol M) threads 128 {
    %anew = "gpu.opaque"(%c) : (i1) -> index
    gpu.return
  }
}

// -----

// CHECK: a pad of 4 elements belongs behind the rows of a tile with swizzle 0; give it that, or drop the pad
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k() threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[64, 32], f32, swizzle 128, pad 4>
    gpu.return
  }
}
