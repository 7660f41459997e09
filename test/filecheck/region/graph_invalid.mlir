// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: output y is from @k::@z, which is not there
region.graph @g ins(x: !region.memref<[M], f32, align 16>) outs(y: !region.memref<[M], f32, align 16> from @k::@z)
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 16> {from = @g::@x}) outs(y: !region.memref<[M], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}

// -----

// CHECK: output y is from @kernel::@output, not from @g::@x
region.graph @g ins(x: !region.memref<[M], f32, align 16>) outs(y: !region.memref<[M], f32, align 16> from @g::@x)
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 16> {from = @g::@x}) outs(y: !region.memref<[M], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}

// -----

// CHECK: input x of @k does not say where it is from; write {from = @g::@input} for an input of the graph
region.graph @g ins(x: !region.memref<[M], f32, align 16>) outs(y: !region.memref<[M], f32, align 16> from @k::@y)
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 16>) outs(y: !region.memref<[M], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}

// -----

// CHECK: input x of @k is from @g::@w, which is not there
region.graph @g ins(x: !region.memref<[M], f32, align 16>) outs(y: !region.memref<[M], f32, align 16> from @k::@y)
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 16> {from = @g::@w}) outs(y: !region.memref<[M], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}

// -----

// CHECK: output y is !region.memref<[M + 1], f32, align 16> and @k::@y is !region.memref<[M], f32, align 16>; both are one buffer: give them one element type and as many elements
region.graph @g ins(x: !region.memref<[M], f32, align 16>) outs(y: !region.memref<[M + 1], f32, align 16> from @k::@y)
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 16> {from = @g::@x}) outs(y: !region.memref<[M], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}

// -----

// CHECK: output y is !region.memref<[M], f16, align 16> and @k::@y is
region.graph @g ins(x: !region.memref<[M], f32, align 16>) outs(y: !region.memref<[M], f16, align 16> from @k::@y)
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 16> {from = @g::@x}) outs(y: !region.memref<[M], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}

// -----

// CHECK: input x of @k is from @l::@y, which is made by a kernel further down
region.graph @g ins(x: !region.memref<[M], f32, align 16>) outs(y: !region.memref<[M], f32, align 16> from @k::@y)
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 16> {from = @l::@y}) outs(y: !region.memref<[M], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}
region.kernel @l iters [m: M] ins(%x: !region.memref<[M], f32, align 16> {from = @g::@x}) outs(y: !region.memref<[M], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}

// -----

// CHECK: the name x is given to two tensors of the signature; rename one
region.graph @g ins(x: !region.memref<[M], f32, align 16>) outs(x: !region.memref<[M], f32, align 16> from @k::@y)
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 16> {from = @g::@x}) outs(y: !region.memref<[M], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}

// -----

// CHECK: expected @kernel::@output, got 3 : i64
region.graph @g ins(x: !region.memref<[M], f32, align 16>) outs(y: !region.memref<[M], f32, align 16> from 3)
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 16> {from = @g::@x}) outs(y: !region.memref<[M], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}

