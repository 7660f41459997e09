// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: a reduction is over one or more distinct axes, not over [n, n]
region.kernel @f iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce_together %0 over [n, n] chunk {
  ^bb0(%c: !region.val<[m: M, n: N], f32>):
    %s = region.reduce sum %c over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
    region.state %s : !region.val<[m: M], f32>
  } combine {
  ^bb0(%a: !region.val<[m: M], f32>, %b: !region.val<[m: M], f32>):
    %t = region.binary add %a, %b : !region.val<[m: M], f32>
    region.state %t : !region.val<[m: M], f32>
  } : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}

// -----

// CHECK: the reduction is over k, which no operand has; name axes of the operands
region.kernel @f iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce_together %0 over [n, k] chunk {
  ^bb0(%c: !region.val<[m: M, n: N], f32>):
    %s = region.reduce sum %c over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
    region.state %s : !region.val<[m: M], f32>
  } combine {
  ^bb0(%a: !region.val<[m: M], f32>, %b: !region.val<[m: M], f32>):
    %t = region.binary add %a, %b : !region.val<[m: M], f32>
    region.state %t : !region.val<[m: M], f32>
  } : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}

// -----

// CHECK: a state has the axes [m: M, n: N], and n is reduced
region.kernel @f iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %t = region.reduce_together %0 over [n] chunk {
  ^bb0(%c: !region.val<[m: M, n: N], f32>):
    region.state %c : !region.val<[m: M, n: N], f32>
  } combine {
  ^bb0(%a: !region.val<[m: M, n: N], f32>, %b: !region.val<[m: M, n: N], f32>):
    region.state %a : !region.val<[m: M, n: N], f32>
  } : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce sum %t over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}

// -----

// CHECK: the chunk takes !region.val<[m: M, n: N], f32>, not !region.val<[m: M], f32>
region.kernel @f iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce_together %0 over [n] chunk {
  ^bb0(%c: !region.val<[m: M], f32>):
    region.state %c : !region.val<[m: M], f32>
  } combine {
  ^bb0(%a: !region.val<[m: M], f32>, %b: !region.val<[m: M], f32>):
    %t = region.binary add %a, %b : !region.val<[m: M], f32>
    region.state %t : !region.val<[m: M], f32>
  } : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}

// -----

// CHECK: the combine takes !region.val<[m: M], f32>, !region.val<[m: M], f32>, not !region.val<[m: M], f32>
region.kernel @f iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce_together %0 over [n] chunk {
  ^bb0(%c: !region.val<[m: M, n: N], f32>):
    %s = region.reduce sum %c over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
    region.state %s : !region.val<[m: M], f32>
  } combine {
  ^bb0(%a: !region.val<[m: M], f32>):
    region.state %a : !region.val<[m: M], f32>
  } : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}

// -----

// CHECK: the combine holds region.reduce; it may hold region.unary, region.binary
region.kernel @f iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce_together %0 over [n] chunk {
  ^bb0(%c: !region.val<[m: M, n: N], f32>):
    %s = region.reduce sum %c over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
    region.state %s : !region.val<[m: M], f32>
  } combine {
  ^bb0(%a: !region.val<[m: M], f32>, %b: !region.val<[m: M], f32>):
    %t = region.broadcast_in_dim %a dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
    %u = region.reduce max %t over [n] init -inf : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
    region.state %u : !region.val<[m: M], f32>
  } : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}

// -----

// CHECK: the chunk holds region.inside; it may hold
region.kernel @f iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce_together %0 over [n] chunk {
  ^bb0(%c: !region.val<[m: M, n: N], f32>):
    %i = region.inside affine_set<(d0, d1)[s0, s1] : ((d0 + (d1 * -1)) >= 0)> : !region.val<[m: M, n: N], i1>
    %s = region.reduce sum %c over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
    region.state %s : !region.val<[m: M], f32>
  } combine {
  ^bb0(%a: !region.val<[m: M], f32>, %b: !region.val<[m: M], f32>):
    %t = region.binary add %a, %b : !region.val<[m: M], f32>
    region.state %t : !region.val<[m: M], f32>
  } : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}

// -----

// CHECK: the chunk gives !region.val<[m: M], f32>, not !region.val<[m: M, n: N], f32>
region.kernel @f iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce_together %0 over [n] chunk {
  ^bb0(%c: !region.val<[m: M, n: N], f32>):
    region.state %c : !region.val<[m: M, n: N], f32>
  } combine {
  ^bb0(%a: !region.val<[m: M], f32>, %b: !region.val<[m: M], f32>):
    %t = region.binary add %a, %b : !region.val<[m: M], f32>
    region.state %t : !region.val<[m: M], f32>
  } : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}

// -----

// CHECK: error[AccDtypeMissing]: a sum of f16 does not say what it accumulates in; write acc f32
region.kernel @f iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce_together %0 over [n] chunk {
  ^bb0(%c: !region.val<[m: M, n: N], f32>):
    %h = region.cast %c : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
    %g = region.reduce sum %h over [n] init 0.0 : !region.val<[m: M, n: N], f16> -> !region.val<[m: M], f16>
    %s = region.cast %g : !region.val<[m: M], f16> -> !region.val<[m: M], f32>
    region.state %s : !region.val<[m: M], f32>
  } combine {
  ^bb0(%a: !region.val<[m: M], f32>, %b: !region.val<[m: M], f32>):
    %t = region.binary add %a, %b : !region.val<[m: M], f32>
    region.state %t : !region.val<[m: M], f32>
  } : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}

// -----

// CHECK: error[NeutralInvalid]: init of a max is -inf, what it gives over nothing, not 0.0
region.kernel @f iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce_together %0 over [n] chunk {
  ^bb0(%c: !region.val<[m: M, n: N], f32>):
    %s = region.reduce max %c over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
    region.state %s : !region.val<[m: M], f32>
  } combine {
  ^bb0(%a: !region.val<[m: M], f32>, %b: !region.val<[m: M], f32>):
    %t = region.binary add %a, %b : !region.val<[m: M], f32>
    region.state %t : !region.val<[m: M], f32>
  } : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}

// -----

// CHECK: 'region.state' must be the last operation in its parent block
region.kernel @f iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  "region.state"() : () -> ()
  region.yield %0 : !region.val<[m: M], f32>
}

// -----

// CHECK: error[ParseError]: expected 1 operand types but had 2
region.kernel @f iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %1 = region.reduce_together %0, %0 over [m] chunk {
  } combine {
  } : !region.val<[m: M], f32> -> !region.val<[], f32>
  region.yield %0 : !region.val<[m: M], f32>
}

// -----

// CHECK: Region 'chunk' at position 0 expected a single block, but got 0 blocks
region.kernel @f iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %1 = region.reduce_together %0 over [m] chunk {
  } combine {
  } : !region.val<[m: M], f32> -> !region.val<[], f32>
  region.yield %0 : !region.val<[m: M], f32>
}
