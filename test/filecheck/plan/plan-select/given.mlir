// RUN: polyc-opt %s -p 'plan-select{arch=sm_90a plan="%S/Inputs/stages3.json"}' | filecheck %s
// RUN: not polyc-opt %s -p 'plan-select{arch=sm_90a plan="%S/Inputs/too_large.json"}' 2>&1 | filecheck %s --check-prefix=LARGE
// RUN: not polyc-opt %s -p 'plan-select{arch=sm_80 plan="%S/Inputs/sm90.json"}' 2>&1 | filecheck %s --check-prefix=ARCH
// RUN: not polyc-opt %s -p 'plan-select{arch=sm_80 plan="%S/Inputs/cut_off.json"}' 2>&1 | filecheck %s --check-prefix=CUT
// RUN: not polyc-opt %s -p 'plan-select{arch=sm_80 plan="%S/Inputs/unknown_field.json"}' 2>&1 | filecheck %s --check-prefix=FIELD
// RUN: not polyc-opt %s -p 'plan-select{arch=sm_80 plan="%S/Inputs/unknown_variant.json"}' 2>&1 | filecheck %s --check-prefix=VARIANT
// RUN: not polyc-opt %s -p 'plan-select{arch=sm_80 plan="%S/Inputs/none.json"}' 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not polyc-opt %s -p 'plan-select{arch=sm_70}' 2>&1 | filecheck %s --check-prefix=SM70

// The user's fields lie over the variant that they name, or the first; the others are the compiler's.
// CHECK:      plan.schedule @gemm variant "tma" when (K mod 8 == 0, N mod 8 == 0, K >= 1) {
// CHECK:        tile = [128, 128, 64],
// CHECK-NEXT:   stages = 3,
// CHECK-NEXT:   warp_tile = [64, 128],
// CHECK-NEXT:   fragment_buffers = 1,
// CHECK-NEXT:   consumers = 2,
// CHECK:        vectorize = 4,
// CHECK:      plan.schedule @gemm variant "cp_async" when
// CHECK:        stages = 3,

// LARGE: error[ResourceExceeded]: plan 'tma' of region @gemm: tile 128x256x64 with 8 stages takes 410752 bytes of shared memory, sm_90a allows 232448; lower stages or the tile
// ARCH: error[BadPlan]: the plan is for sm_90a, the pass for sm_80; give one of both
// CUT: error[BadPlan]: the plan {{.*}}cut_off.json is not JSON: Expecting value at line 2
// FIELD: error[BadPlan]: a schedule has no field 'stagez'; its fields are arch, tensorize
// VARIANT: error[BadPlan]: there is no variant 'simd' to schedule; the variants are cp_async16_128x128_parts8, cp_async16_large, cp_async16, padded, cp_async4, scalar
// NONE: error[BadPlan]: the plan {{.*}}none.json cannot be read: No such file or directory
// SM70: error[UnknownArch]: there is no architecture 'sm_70'; use sm_80 or sm_90a

region.kernel @gemm iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %af = region.cast %a : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], f16, align 16> -> !region.val<[k: K, n: N], f16>
  %bf = region.cast %b : !region.val<[k: K, n: N], f16> -> !region.val<[k: K, n: N], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %c = region.cast %acc : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %c : !region.val<[m: M, n: N], f16>
}
