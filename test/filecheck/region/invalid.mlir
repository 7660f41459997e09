// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of the dialect; the message says which, with the values.

// CHECK: error[BroadcastMismatch]: region.binary has the unlike types !region.val<[m: M, k: K], f32> and !region.val<[m: M], f32>; make their axes equal with region.broadcast_in_dim or region.transpose
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce sum %y over [k] init 0.0 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  %b = region.binary add %y, %s : !region.val<[m: M, k: K], f32>, !region.val<[m: M], f32> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[BroadcastMismatch]: region.binary has the unlike types !region.val<[m: M, k: K], f32> and !region.val<[k: K, m: M], f32>
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.transpose %y perm [1, 0] : !region.val<[m: M, k: K], f32> -> !region.val<[k: K, m: M], f32>
  %b = region.binary add %y, %s : !region.val<[m: M, k: K], f32>, !region.val<[k: K, m: M], f32> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[BroadcastMismatch]: region.select has the unlike types !region.val<[m: M], i1> and !region.val<[m: M, k: K], f32>
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce sum %y over [k] init 0.0 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  %c = region.compare lt %s, %s : !region.val<[m: M], f32>, !region.val<[m: M], f32> -> !region.val<[m: M], i1>
  %b = region.select %c, %y, %y : !region.val<[m: M], i1>, !region.val<[m: M, k: K], f32>, !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: region.binary has operands of f32 and f16; convert one with region.cast
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %h = region.cast %y : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K], f16>
  %b = region.binary add %y, %h : !region.val<[m: M, k: K], f32>, !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: region.unary of !region.val<[m: M, k: K], f32> gives !region.val<[m: M, k: K], f32>, not !region.val<[m: M], f32>
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %b = region.unary exp %y : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: unknown function cube; it is one of abs, acos,
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %b = region.unary cube %y : !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: the condition of a select is i1, not f32; compare first
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %b = region.select %y, %y, %y : !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: the reduction is over n, and its operand has the axes [m: M, k: K]; name axes of the operand
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce sum %y over [n] init 0.0 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: a reduction is over one or more distinct axes, not over [k, k]
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce sum %y over [k, k] init 0.0 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[NeutralInvalid]: init of a max is -inf, what it gives over nothing, not -65504.0; another number in its place changes the result
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce max %y over [k] init -65504.0 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[NeutralInvalid]: init of a sum is 0.0, what it gives over nothing, not 1.0
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce sum %y over [k] init 1.0 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[NeutralInvalid]: init of a sum is 0.0, what it gives over nothing, not -0.0
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce sum %y over [k] init -0.0 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[NeutralInvalid]: init of a min is inf, what it gives over nothing, not nan
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce min %y over [k] init nan : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[AccDtypeMissing]: a sum of f16 does not say what it accumulates in; write acc f32
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %h = region.cast %y : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K], f16>
  %p = region.binary mul %h, %h : !region.val<[m: M, k: K], f16>
  %s = region.reduce sum %p over [k] init 0.0 : !region.val<[m: M, k: K], f16> -> !region.val<[m: M], f16>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: the reduction gives !region.val<[m: M], f32>, not !region.val<[k: K], f32>
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce sum %y over [k] init 0.0 : !region.val<[m: M, k: K], f32> -> !region.val<[k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: two reductions are named "acc"; a plan names the one that it means, give each its own name
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce sum %y over [k] init 0.0 name "acc" : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  %t = region.reduce max %y over [k] init -inf name "acc" : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[AxisAlignmentMismatch]: region.broadcast_in_dim puts the operand's axis k: K on the result's axis m: M; name and size stay the same
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce sum %y over [m] init 0.0 : !region.val<[m: M, k: K], f32> -> !region.val<[k: K], f32>
  %b = region.broadcast_in_dim %s dims [0] : !region.val<[k: K], f32> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[AxisAlignmentMismatch]: axis k has size K in one place and K + 1 in region.broadcast_in_dim; one name is one index, rename one of the two
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce sum %y over [k] init 0.0 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  %b = region.broadcast_in_dim %s dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, k: K + 1], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: dims [0, 0] is not a choice of distinct positions of [m: M, k: K]
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %b = region.broadcast_in_dim %y dims [0, 0] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: dims [0] has 1 entries and the operand 2 axes [m: M, k: K]; give one each
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %b = region.broadcast_in_dim %y dims [0] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: perm [1, 1] is not a permutation of the axes [m: M, k: K]
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %b = region.transpose %y perm [1, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[AxisAlignmentMismatch]: region.transpose puts the operand's axis k: K on the result's axis m: M
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %b = region.transpose %y perm [1, 0] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: the map gives 1 coordinates and the tensor has 2 dimensions [M, K]; give one each
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: the map takes 1 axes and the value has 2, [m: M, k: K]; give one dimension an axis
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0)[s0, s1] -> (d0, d0)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: the map has 1 symbols and the kernel 2, [M, K]; align it to the kernel's
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[MissingDivGuard]: the map has mod in
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1 mod 4)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[UnguardedAccess]: coordinate 1 of the read, (d1 + 1) over [m: M, k: K], is 1 at [m = 0, k = 0] when M = 1, K = 1, outside the tensor
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1 + 1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[UnguardedAccess]: coordinate 0 of the read, (d0 + -1) over [m: M, k: K], is -1 at [m = 0, k = 0]
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0 - 1, d1)> where affine_set<(d0, d1)[s0, s1] : (d1 >= 0)> else 0.0 : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[UnguardedAccess]: coordinate 1 of the read, d0 over [m: M, k: K], is 1 at [m = 1, k = 0] when M = 2, K = 1, outside the tensor; 0 to K - 1 is inside: guard the read (where affine_set<…> else fill) or change the map
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d0)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: a read of !region.memref<[M, K], f32, align 4> gives f32, not f16; convert with region.cast
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f16>
  region.yield %y : !region.val<[m: M, k: K], f16>
}

// -----

// CHECK: output y has shape [M, K] and is given [k: K, m: M]; make the sizes equal
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %t = region.transpose %y perm [1, 0] : !region.val<[m: M, k: K], f32> -> !region.val<[k: K, m: M], f32>
  region.yield %t : !region.val<[k: K, m: M], f32>
}

// -----

// CHECK: output y holds f16 and is given f32; convert with region.cast
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f16, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: output y depends on axis k, which is not one of the kernel's iters [m: M]; reduce it or add it
region.kernel @f iters [m: M]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: 0 values are yielded to 1 outputs; yield one each
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>

  region.yield
}

// -----

// CHECK: axis m stands twice in [m: M, k: K, m: M]; an axis name is one index, give the second another name
region.kernel @f iters [m: M, k: K, m: M]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: the name x is given to two tensors of the signature; rename one
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(x: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: unknown function smem; it is one of gmem, deferred
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> smem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: the signature uses K, which the kernel's symbols [M] lack
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) symbols [M] {
  %y = region.read %x affine_map<(d0, d1)[s0] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: axis n: N uses N, which is not one of the kernel's symbols [M, K]
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %b = region.broadcast_in_dim %y dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: align 3 is not a power of two; write the bytes that the base address is a multiple of
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 3>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: element type f64 is not one of f16, bf16, f32
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f64, align 8>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: a constant has no axes, and its type has [m: M]; broadcast it
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %c = region.constant 1.0 : !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: expected 2 operands, got 1
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %b = region.binary add %y : !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: the assumption P >= 1 names a symbol that is not one of the kernel's, [M, K]
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M, K], f32, align 4> gmem)
    assuming (P >= 1) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  region.yield %y : !region.val<[m: M, k: K], f32>
}

// -----

// CHECK: error[AccDtypeMissing]: a prod accumulates in f32, not in f16; write acc f32
region.kernel @f iters [m: M]
    ins(%x: !region.memref<[M, K], f16, align 4>)
    outs(y: !region.memref<[M], f16, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f16, align 4> -> !region.val<[m: M, k: K], f16>
  %s = region.reduce prod %y over [k] init 1.0 : !region.val<[m: M, k: K], f16> -> !region.val<[m: M], f16>
  region.yield %s : !region.val<[m: M], f16>
}
