// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Memory holds rows and columns apart; the kernel runs over them as one axis.
// CHECK-LABEL: region.kernel @k iters [nh: H * N]
// CHECK: held(!region.memref<[N, H], f32, align 16>, !region.memref<[N, H], f32, align 16>) {
region.kernel @k iters [nh: H * N] ins(%x: !region.memref<[H * N], f32, align 16>) outs(y: !region.memref<[H * N], f32, align 16> gmem)
    held(!region.memref<[N, H], f32, align 16>, !region.memref<[N, H], f32, align 16>) {
  %0 = region.read %x affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[H * N], f32, align 16> -> !region.val<[nh: H * N], f32>
  region.yield %0 : !region.val<[nh: H * N], f32>
}
