// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: region.unary: sqrt is no function of i32, which has abs, neg, not; add a cast
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], i32, align 4>) outs(y: !region.memref<[M], i32, align 4> gmem) {
  %r = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], i32, align 4> -> !region.val<[m: M], i32>
  %0 = region.unary sqrt %r : !region.val<[m: M], i32>
  region.yield %0 : !region.val<[m: M], i32>
}

// -----

// CHECK: init of a max is -2147483648, what it gives over nothing, not 0
region.kernel @k iters [m: M] ins(%x: !region.memref<[M, N], i32, align 4>) outs(y: !region.memref<[M], i32, align 4> gmem) {
  %r = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], i32, align 4> -> !region.val<[m: M, n: N], i32>
  %0 = region.reduce max %r over [n] init 0 : !region.val<[m: M, n: N], i32> -> !region.val<[m: M], i32>
  region.yield %0 : !region.val<[m: M], i32>
}

// -----

// CHECK: a reduction of i32 does not accumulate in f32; convert the operand with region.cast
region.kernel @k iters [m: M] ins(%x: !region.memref<[M, N], i32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %r = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], i32, align 4> -> !region.val<[m: M, n: N], i32>
  %0 = region.reduce sum %r over [n] init 0.0 acc f32 : !region.val<[m: M, n: N], i32> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}

// -----

// CHECK: an index is an integer, not f32; cast it
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.index affine_map<(d0)[s0] -> (d0)> : !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}

// -----

// CHECK: the map of an index takes the 1 axes [m: M] and gives one number; it takes 2 and gives 1
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], i32, align 4>) outs(y: !region.memref<[M], i32, align 4> gmem) {
  %0 = region.index affine_map<(d0, d1)[s0] -> (d0)> : !region.val<[m: M], i32>
  region.yield %0 : !region.val<[m: M], i32>
}

// -----

// CHECK: the index has mod
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], i32, align 4>) outs(y: !region.memref<[M], i32, align 4> gmem) {
  %0 = region.index affine_map<(d0)[s0] -> (d0 mod 2)> : !region.val<[m: M], i32>
  region.yield %0 : !region.val<[m: M], i32>
}

// -----

// CHECK: the map has 0 symbols and the kernel 1, [M]; align it to the kernel's
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], i32, align 4>) outs(y: !region.memref<[M], i32, align 4> gmem) {
  %0 = region.index affine_map<(d0) -> (d0)> : !region.val<[m: M], i32>
  region.yield %0 : !region.val<[m: M], i32>
}

// -----

// CHECK: -1 is no ui8, which holds integers from 0 to 255
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], ui8, align 4>) outs(y: !region.memref<[M], ui8, align 4> gmem) {
  %0 = region.constant -1 : !region.val<[], ui8>
  region.yield %0 : !region.val<[], ui8>
}
