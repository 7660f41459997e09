// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: held has 1 tensors and the kernel has 2: give each input and output its own, or leave held out
region.kernel @k iters [n: N] ins(%x: !region.memref<[N], f32, align 16>) outs(y: !region.memref<[N], f32, align 16> gmem)
    held(!region.memref<[N], f32, align 16>) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[N], f32, align 16> -> !region.val<[n: N], f32>
  region.yield %0 : !region.val<[n: N], f32>
}

// -----

// CHECK: x is !region.memref<[N, H], f32, align 16> in memory, and !region.memref<[N], f32, align 16> is no view of it
region.kernel @k iters [n: N] ins(%x: !region.memref<[N], f32, align 16>) outs(y: !region.memref<[N], f32, align 16> gmem)
    held(!region.memref<[N, H], f32, align 16>, !region.memref<[N], f32, align 16>) {
  %0 = region.read %x affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[N], f32, align 16> -> !region.val<[n: N], f32>
  region.yield %0 : !region.val<[n: N], f32>
}

// -----

// CHECK: y is !region.memref<[N], f16, align 16> in memory, and !region.memref<[N], f32, align 16> is no view of it
region.kernel @k iters [n: N] ins(%x: !region.memref<[N], f32, align 16>) outs(y: !region.memref<[N], f32, align 16> gmem)
    held(!region.memref<[N], f32, align 16>, !region.memref<[N], f16, align 16>) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[N], f32, align 16> -> !region.val<[n: N], f32>
  region.yield %0 : !region.val<[n: N], f32>
}

// -----

// CHECK: expected a !region.memref, got f32
region.kernel @k iters [n: N] ins(%x: !region.memref<[N], f32, align 16>) outs(y: !region.memref<[N], f32, align 16> gmem)
    held(f32) {
  region.yield
}
