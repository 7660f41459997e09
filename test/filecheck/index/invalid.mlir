// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// The seven invariants of the index book (S4), then what else an entry must be; each
// text breaks one.

// 1: affine and floordiv only.
// CHECK: error[MissingDivGuard]: mod is left in (d0 mod 2); write it as e - q * (e floordiv q)
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box from [affine_map<(d0)[s0] -> (d0 mod 2)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: error[MissingDivGuard]: ceildiv is left in (d0 ceildiv 2); write it as floordiv
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box from [affine_map<(d0)[s0] -> (d0 ceildiv 2)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: error[MissingDivGuard]: mod is left in (d0 mod 2)
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] pieces [affine_set<(d0)[s0] : (d0 mod 2 == 0)> from [affine_map<(d0)[s0] -> (d0)>], affine_set<(d0)[s0] : (d0 mod 2 - 1 == 0)> from [fill 0.0]] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// 2: names i0, i1, … in order.
// CHECK: axis 0 is named m; axes are named i0, i1, … in order, so write i0
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [m(0): N] box from [affine_map<(d0)[s0] -> (d0)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// 3: a broadcast is the constant 0, never a condition.
// CHECK: result 0 of (d0, d1)[s0, s1] -> (d0, d1) varies with the broadcast axis i0; a broadcast is the constant 0
tiny.graph @f(%x: !tiny.tensor<[1, N], f32>) -> (C: !tiny.tensor<[M, N], f32>) {
  index.value %x axes [i0(0): 1, i1(1): N] box : !tiny.tensor<[1, N], f32>
  %y = tiny.expand %x dims [0, 1] : !tiny.tensor<[1, N], f32> -> !tiny.tensor<[M, N], f32>
  index.value %y axes [i0(2): M broadcast, i1(1): N] box from [affine_map<(d0, d1)[s0, s1] -> (d0, d1)>] : !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: the condition d0 == 0 is on the broadcast axis i0; a broadcast is the constant 0 in the map, never a condition
tiny.graph @f(%x: !tiny.tensor<[1, N], f32>) -> (C: !tiny.tensor<[M, N], f32>) {
  index.value %x axes [i0(0): 1, i1(1): N] box : !tiny.tensor<[1, N], f32>
  %y = tiny.expand %x dims [0, 1] : !tiny.tensor<[1, N], f32> -> !tiny.tensor<[M, N], f32>
  index.value %y axes [i0(2): M broadcast, i1(1): N] pieces [affine_set<(d0, d1)[s0, s1] : (d0 == 0)> from [affine_map<(d0, d1)[s0, s1] -> (0, d1)>], affine_set<(d0, d1)[s0, s1] : (d0 - 1 >= 0)> from [affine_map<(d0, d1)[s0, s1] -> (0, d1)>]] : !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}

// -----

// 4: a reduced axis leaves and is recorded by its id; the others keep theirs.
// CHECK: the op reduces 1 axes, the entry records 0; record each reduced axis by the id that it had
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> (C: !tiny.tensor<[M], f32>) {
  index.value %x axes [i0(0): M, i1(1): K] box : !tiny.tensor<[M, K], f32>
  %y = tiny.reduce sum %x axes [1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M], f32>
  index.value %y axes [i0(0): M] box from [affine_map<(d0)[s0, s1] -> (d0, 0)>] : !tiny.tensor<[M], f32>
  tiny.output %y : !tiny.tensor<[M], f32>
}

// -----

// CHECK: the op removes the axes with ids [1], the entry records [7]
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> (C: !tiny.tensor<[M], f32>) {
  index.value %x axes [i0(0): M, i1(1): K] box : !tiny.tensor<[M, K], f32>
  %y = tiny.reduce sum %x axes [1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M], f32>
  index.value %y axes [i0(0): M] reduce [k(7): K] box from [affine_map<(d0, d1)[s0, s1] -> (d0, d1)>] : !tiny.tensor<[M], f32>
  tiny.output %y : !tiny.tensor<[M], f32>
}

// -----

// CHECK: the axes that remain keep their ids [0], not [5]
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> (C: !tiny.tensor<[M], f32>) {
  index.value %x axes [i0(0): M, i1(1): K] box : !tiny.tensor<[M, K], f32>
  %y = tiny.reduce sum %x axes [1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M], f32>
  index.value %y axes [i0(5): M] reduce [k(1): K] box from [affine_map<(d0, d1)[s0, s1] -> (d0, d1)>] : !tiny.tensor<[M], f32>
  tiny.output %y : !tiny.tensor<[M], f32>
}

// -----

// CHECK: the value reduces [k(1): 4], but its op is no tiny.reduce
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] reduce [k(1): 4] box from [affine_map<(d0, d1)[s0] -> (d0)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// 5: affine maps for all operands, or non_scop and none.
// CHECK: a value that is not non_scop has at least one piece
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] pieces [] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: 0 inputs for a value whose op reads 1 operands; give each a map or a fill
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: error[NonSCoP]: a non_scop value has no affine maps; leave out its pieces and reduced axes, or drop non_scop
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  "index.value"(%y) <{axes = [#index.axis<i0(0): N>], reduced = [], pieces = [#index.piece<box from [affine_map<(d0)[s0] -> (d0)>]>], non_scop}> : (!tiny.tensor<[N], f32>) -> ()
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// 6: positive denominators, in lowest terms.
// CHECK: ((d0 * 2) floordiv 4) is not in lowest terms; write (d0 floordiv 2)
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box from [affine_map<(d0)[s0] -> ((d0 * 2) floordiv 4)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: the denominator of (d0 floordiv -2) is -2; it is a positive integer
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box from [affine_map<(d0)[s0] -> (d0 floordiv -2)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// 7: maps are simplified; pieces are disjoint, not empty, and cover the box.
// CHECK: ((d0 + d0) + (d0 * -1)) is not simplified; write d0
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box from [affine_map<(d0)[s0] -> (d0 + d0 - d0)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: pieces 0 and 1 overlap; the pieces of a domain are disjoint
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] pieces [affine_set<(d0)[s0] : (d0 - 4 >= 0)> from [affine_map<(d0)[s0] -> (d0)>], affine_set<(d0)[s0] : (-d0 + 4 >= 0)> from [fill 0.0]] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: the pieces do not cover the box of the axes; add a piece with a fill for the rest
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] pieces [affine_set<(d0)[s0] : (d0 - 4 >= 0)> from [affine_map<(d0)[s0] -> (d0)>], affine_set<(d0)[s0] : (-d0 + 2 >= 0)> from [fill 0.0]] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: piece 1 holds no point; leave it out
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] pieces [affine_set<(d0)[s0] : (d0 >= 0)> from [affine_map<(d0)[s0] -> (d0)>], affine_set<(d0)[s0] : (-d0 - 1 >= 0)> from [fill 0.0]] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// An access stays inside its operand.
// CHECK: error[UnguardedAccess]: (d0)[s0] -> ((d0 + 1)) leaves its operand !tiny.tensor<[N], f32> somewhere on the domain; guard it by a piece with a fill, or correct the map
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box from [affine_map<(d0)[s0] -> (d0 + 1)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// Dimensions are the axes, symbols the signature's.
// CHECK: (d0) -> (d0) has 0 symbols; the signature has 1: N
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box from [affine_map<(d0) -> (d0)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: (d0, d1)[s0] -> (d0) has 2 dimensions; it takes 1, the value's axes and then its reduced axes
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box from [affine_map<(d0, d1)[s0] -> (d0)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: (d0)[s0] -> (d0, d0) has 2 results for !tiny.tensor<[N], f32> of rank 1
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box from [affine_map<(d0)[s0] -> (d0, d0)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// One axis a dimension, one entry a value.
// CHECK: 2 axes for !tiny.tensor<[N], f32>, which has rank 1
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N, i1(1): N] box from [affine_map<(d0, d1)[s0] -> (d0)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: axis i0 has size 4, the value's type !tiny.tensor<[N], f32> has N
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): 4] box from [affine_map<(d0)[s0] -> (d0)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: the value has two index.value ops; keep one
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box from [affine_map<(d0)[s0] -> (d0)>] : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box from [affine_map<(d0)[s0] -> (d0)>] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: two axes have the id 0
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> (C: !tiny.tensor<[M], f32>) {
  index.value %x axes [i0(0): M, i1(1): K] box : !tiny.tensor<[M, K], f32>
  %y = tiny.reduce sum %x axes [1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M], f32>
  index.value %y axes [i0(0): M] reduce [k(0): K] box from [affine_map<(d0, d1)[s0, s1] -> (d0, d1)>] : !tiny.tensor<[M], f32>
  tiny.output %y : !tiny.tensor<[M], f32>
}

// -----

// CHECK: reduced axis i1 has the name of an axis of the value
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> (C: !tiny.tensor<[M], f32>) {
  index.value %x axes [i0(0): M, i1(1): K] box : !tiny.tensor<[M, K], f32>
  %y = tiny.reduce sum %x axes [1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M], f32>
  index.value %y axes [i0(0): M] reduce [i1(1): K] box from [affine_map<(d0, d1)[s0, s1] -> (d0, d1)>] : !tiny.tensor<[M], f32>
  tiny.output %y : !tiny.tensor<[M], f32>
}

// -----

// Text that does not read.
// CHECK: expected box or an affine_set
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] pieces [42 : i32] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: expected an affine_map or a fill
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] box from [42 : i32] : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: identifier expected for an axis, such as i0(5): M
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [0] box : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// -----

// CHECK: "it divides" is why a value is non_scop, and this one is not; leave it out
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (C: !tiny.tensor<[N], f32>) {
  "index.value"(%x) <{axes = [#index.axis<i0(0): N>], reduced = [], pieces = [#index.piece<box>], reason = "it divides"}> : (!tiny.tensor<[N], f32>) -> ()
  tiny.output %x : !tiny.tensor<[N], f32>
}
