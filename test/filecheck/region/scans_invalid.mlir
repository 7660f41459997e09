// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of region.scan; the message says which, with the values.

// CHECK: error[ParseError]: unknown function mean; it is one of sum, prod, max, min
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %r = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %0 = region.scan mean %r along m : !region.val<[m: M], f32>
  region.yield %r : !region.val<[m: M], f32>
}

// -----

// CHECK: error[InvalidIR]: the scan goes along n, and its operand has the axes [m: M]; name one of them
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %r = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %0 = region.scan sum %r along n : !region.val<[m: M], f32>
  region.yield %r : !region.val<[m: M], f32>
}

// -----

// CHECK: error[AccDtypeMissing]: a scan accumulates in f32, not in f16; convert the operand with region.cast
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f16, align 2>) outs(y: !region.memref<[M], f16, align 2> gmem) {
  %r = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f16, align 2> -> !region.val<[m: M], f16>
  %0 = region.scan sum %r along m : !region.val<[m: M], f16>
  region.yield %r : !region.val<[m: M], f16>
}

// -----

// CHECK: error[InvalidIR]: a scan of i1 is not there; choose numbers by region.select
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], i1, align 1>) outs(y: !region.memref<[M], i1, align 1> gmem) {
  %r = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], i1, align 1> -> !region.val<[m: M], i1>
  %0 = region.scan max %r along m : !region.val<[m: M], i1>
  region.yield %r : !region.val<[m: M], i1>
}

// -----

// CHECK: error[InvalidIR]: the scan gives !region.val<[m: M], f32>, not !region.val<[m: M], i32>
region.kernel @k iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %r = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %0 = region.scan sum %r along m : !region.val<[m: M], f32> -> !region.val<[m: M], i32>
  region.yield %r : !region.val<[m: M], f32>
}
