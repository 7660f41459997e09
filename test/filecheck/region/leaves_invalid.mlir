// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: a size is an f32 or an integer with no axes, not !region.val<[], f16>
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.dim M : !region.val<[], f16>
  %r = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  region.yield %r : !region.val<[m: M], f32>
}

// -----

// CHECK: the size M * Q names Q, which is not among the kernel's symbols [M]
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.dim M * Q : !region.val<[], f32>
  %r = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  region.yield %r : !region.val<[m: M], f32>
}

// -----

// CHECK: whether a point is inside is an i1, not f32
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.inside affine_set<(d0)[s0] : (d0 >= 0)> : !region.val<[m: M], f32>
  %r = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  region.yield %r : !region.val<[m: M], f32>
}

// -----

// CHECK: the set has 2 dimensions and the value 1 axes, [m: M]; give one dimension an axis
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.inside affine_set<(d0, d1)[s0] : (d0 >= 0)> : !region.val<[m: M], i1>
  %r = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  region.yield %r : !region.val<[m: M], f32>
}

// -----

// CHECK: the set has 0 symbols and the kernel 1, [M]; align it to the kernel's
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.inside affine_set<(d0) : (d0 >= 0)> : !region.val<[m: M], i1>
  %r = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  region.yield %r : !region.val<[m: M], f32>
}

// -----

// CHECK: expected an affine_set
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.inside affine_map<(d0) -> (d0)> : !region.val<[m: M], i1>
  %r = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  region.yield %r : !region.val<[m: M], f32>
}
