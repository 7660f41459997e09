// RUN: polyc-opt %s --split-input-file -p tiny-split-constants | filecheck %s
// RUN: polyc-opt %s --split-input-file -p tiny-split-constants --check-each

// What parameters alone decide is a graph of its own, and a constant of the graph that reads it (S12.2).

// A folded scale is kept in f32, and what repeats it along M stays with its reader.

// CHECK: tiny.graph @fold_made(%g: !tiny.tensor<[8], f32> {storage = "const_pool", entry = "g"}, %v: !tiny.tensor<[8], f32> {storage = "const_pool"}) -> (made0: !tiny.tensor<[8], f32>) {
// CHECK-NEXT: %r = tiny.unary rsqrt %v : !tiny.tensor<[8], f32>
// CHECK-NEXT: %s = tiny.binary mul %r, %g : !tiny.tensor<[8], f32>
// CHECK-NEXT: tiny.output %s : !tiny.tensor<[8], f32>
// CHECK-NEXT: }
// CHECK-NEXT: tiny.graph @fold(%x: !tiny.tensor<[M, 8], f32>, %made0: !tiny.tensor<[8], f32> {role = "param", storage = "const_pool", made = "fold_made.made0"}) -> (C: !tiny.tensor<[M, 8], f32>) {
// CHECK-NEXT: %e = tiny.expand %made0 dims [1] : !tiny.tensor<[8], f32> -> !tiny.tensor<[M, 8], f32>
// CHECK-NEXT: %y = tiny.binary mul %x, %e : !tiny.tensor<[M, 8], f32>
// CHECK-NEXT: tiny.output %y : !tiny.tensor<[M, 8], f32>
// CHECK-NEXT: }
tiny.graph @fold(%x: !tiny.tensor<[M, 8], f32>, %g: !tiny.tensor<[8], f32> {storage = "const_pool", entry = "g"}, %v: !tiny.tensor<[8], f32> {storage = "const_pool"}) -> (C: !tiny.tensor<[M, 8], f32>) {
  %r = tiny.unary rsqrt %v : !tiny.tensor<[8], f32>
  %s = tiny.binary mul %r, %g : !tiny.tensor<[8], f32>
  %e = tiny.expand %s dims [1] : !tiny.tensor<[8], f32> -> !tiny.tensor<[M, 8], f32>
  %y = tiny.binary mul %x, %e : !tiny.tensor<[M, 8], f32>
  tiny.output %y : !tiny.tensor<[M, 8], f32>
}

// -----

// A weight is cast once; the cast of a bias of 8 numbers stays.

// CHECK: tiny.graph @casts_made(%w: !tiny.tensor<[64, 64], f32> {storage = "const_pool"}) -> (made0: !tiny.tensor<[64, 64], f16>) {
// CHECK-NEXT: %0 = tiny.cast %w : !tiny.tensor<[64, 64], f32> -> !tiny.tensor<[64, 64], f16>
// CHECK-NEXT: tiny.output %0 : !tiny.tensor<[64, 64], f16>
// CHECK-NEXT: }
// CHECK-NEXT: tiny.graph @casts(%x: !tiny.tensor<[2], f32>, %b: !tiny.tensor<[8], f32> {storage = "const_pool"}, %made0: !tiny.tensor<[64, 64], f16> {role = "param", storage = "const_pool", made = "casts_made.made0"}) -> (A: !tiny.tensor<[64, 64], f16>, B: !tiny.tensor<[8], f16>, C: !tiny.tensor<[2], f32>) {
// CHECK-NEXT: %0 = tiny.permute %made0 perm [1, 0] : !tiny.tensor<[64, 64], f16> -> !tiny.tensor<[64, 64], f16>
// CHECK-NEXT: %1 = tiny.cast %b : !tiny.tensor<[8], f32> -> !tiny.tensor<[8], f16>
// CHECK-NEXT: tiny.output %0, %1, %x : !tiny.tensor<[64, 64], f16>, !tiny.tensor<[8], f16>, !tiny.tensor<[2], f32>
// CHECK-NEXT: }
tiny.graph @casts(%x: !tiny.tensor<[2], f32>, %w: !tiny.tensor<[64, 64], f32> {storage = "const_pool"}, %b: !tiny.tensor<[8], f32> {storage = "const_pool"}) -> (A: !tiny.tensor<[64, 64], f16>, B: !tiny.tensor<[8], f16>, C: !tiny.tensor<[2], f32>) {
  %0 = tiny.cast %w : !tiny.tensor<[64, 64], f32> -> !tiny.tensor<[64, 64], f16>
  %1 = tiny.permute %0 perm [1, 0] : !tiny.tensor<[64, 64], f16> -> !tiny.tensor<[64, 64], f16>
  %2 = tiny.cast %b : !tiny.tensor<[8], f32> -> !tiny.tensor<[8], f16>
  tiny.output %1, %2, %x : !tiny.tensor<[64, 64], f16>, !tiny.tensor<[8], f16>, !tiny.tensor<[2], f32>
}

// -----

// Numbers of f16 that are put together are kept in f16, and so is what may be stored in it.

// CHECK: tiny.graph @narrow_made(%a: !tiny.tensor<[2], f16> {storage = "const_pool"}, %b: !tiny.tensor<[2], f16> {storage = "const_pool"}) -> (made0: !tiny.tensor<[4], f16>, made1: !tiny.tensor<[2], f16>) {
// CHECK-NEXT: %0 = tiny.cast %a : !tiny.tensor<[2], f16> -> !tiny.tensor<[2], f32>
// CHECK-NEXT: %1 = tiny.cast %b : !tiny.tensor<[2], f16> -> !tiny.tensor<[2], f32>
// CHECK-NEXT: %2 = tiny.pad %0 low [0] high [2] value -inf : !tiny.tensor<[2], f32> -> !tiny.tensor<[4], f32>
// CHECK-NEXT: %3 = tiny.pad %1 low [2] high [0] value -inf : !tiny.tensor<[2], f32> -> !tiny.tensor<[4], f32>
// CHECK-NEXT: %4 = tiny.binary max %2, %3 : !tiny.tensor<[4], f32>
// CHECK-NEXT: %5 = tiny.binary mul %0, %1 own f16 : !tiny.tensor<[2], f32>
// CHECK-NEXT: %6 = tiny.cast %4 : !tiny.tensor<[4], f32> -> !tiny.tensor<[4], f16>
// CHECK-NEXT: %7 = tiny.cast %5 : !tiny.tensor<[2], f32> -> !tiny.tensor<[2], f16>
// CHECK-NEXT: tiny.output %6, %7 : !tiny.tensor<[4], f16>, !tiny.tensor<[2], f16>
// CHECK-NEXT: }
// CHECK-NEXT: tiny.graph @narrow(%x: !tiny.tensor<[4], f32>, %y: !tiny.tensor<[2], f32>, %made0: !tiny.tensor<[4], f16> {role = "param", storage = "const_pool", made = "narrow_made.made0"}, %made1: !tiny.tensor<[2], f16> {role = "param", storage = "const_pool", made = "narrow_made.made1"}) -> (C: !tiny.tensor<[4], f32>, D: !tiny.tensor<[2], f32>) {
// CHECK-NEXT: %0 = tiny.cast %made0 : !tiny.tensor<[4], f16> -> !tiny.tensor<[4], f32>
// CHECK-NEXT: %1 = tiny.cast %made1 : !tiny.tensor<[2], f16> -> !tiny.tensor<[2], f32>
// CHECK-NEXT: %2 = tiny.binary add %x, %0 : !tiny.tensor<[4], f32>
// CHECK-NEXT: %3 = tiny.binary add %y, %1 : !tiny.tensor<[2], f32>
// CHECK-NEXT: tiny.output %2, %3 : !tiny.tensor<[4], f32>, !tiny.tensor<[2], f32>
// CHECK-NEXT: }
tiny.graph @narrow(%x: !tiny.tensor<[4], f32>, %y: !tiny.tensor<[2], f32>, %a: !tiny.tensor<[2], f16> {storage = "const_pool"}, %b: !tiny.tensor<[2], f16> {storage = "const_pool"}) -> (C: !tiny.tensor<[4], f32>, D: !tiny.tensor<[2], f32>) {
  %0 = tiny.cast %a : !tiny.tensor<[2], f16> -> !tiny.tensor<[2], f32>
  %1 = tiny.cast %b : !tiny.tensor<[2], f16> -> !tiny.tensor<[2], f32>
  %2 = tiny.pad %0 low [0] high [2] value -inf : !tiny.tensor<[2], f32> -> !tiny.tensor<[4], f32>
  %3 = tiny.pad %1 low [2] high [0] value -inf : !tiny.tensor<[2], f32> -> !tiny.tensor<[4], f32>
  %4 = tiny.binary max %2, %3 : !tiny.tensor<[4], f32>
  %5 = tiny.binary add %x, %4 : !tiny.tensor<[4], f32>
  %6 = tiny.binary mul %0, %1 own f16 : !tiny.tensor<[2], f32>
  %7 = tiny.binary add %y, %6 : !tiny.tensor<[2], f32>
  tiny.output %5, %7 : !tiny.tensor<[4], f32>, !tiny.tensor<[2], f32>
}

// -----

// Nothing is made of what is only moved, of an outer product that is larger than what it is made of, of sizes that
// are symbols, of conditions on symbols, and of what may change.

// CHECK: tiny.graph @stays(%x: !tiny.tensor<[M], f32>, %a: !tiny.tensor<[512], f32> {storage = "const_pool"}, %b: !tiny.tensor<[M], f32> {storage = "const_pool"}, %c: !tiny.tensor<[512], f32> {storage = "const_pool", mutability = "mutable"}) -> (A: !tiny.tensor<[512, 512], f32>, B: !tiny.tensor<[M], f32>, C: !tiny.tensor<[512], f32>, D: !tiny.tensor<[512], f32>, E: !tiny.tensor<[8, 64], f32>) {
// CHECK-NEXT: %0 = tiny.expand %a dims [0] : !tiny.tensor<[512], f32> -> !tiny.tensor<[512, 512], f32>
// CHECK-NEXT: %1 = tiny.expand %a dims [1] : !tiny.tensor<[512], f32> -> !tiny.tensor<[512, 512], f32>
// CHECK-NEXT: %2 = tiny.binary mul %0, %1 : !tiny.tensor<[512, 512], f32>
// CHECK-NEXT: %3 = tiny.unary exp %b : !tiny.tensor<[M], f32>
// CHECK-NEXT: %4 = tiny.binary add %x, %3 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %5 = tiny.unary exp %c : !tiny.tensor<[512], f32>
// CHECK-NEXT: %6 = tiny.mask %a where affine_set<(d0)[s0] : ((((d0 * -1) + s0) + -1) >= 0)> fill 0.0 : !tiny.tensor<[512], f32> -> !tiny.tensor<[512], f32>
// CHECK-NEXT: %7 = tiny.unary exp %6 : !tiny.tensor<[512], f32>
// CHECK-NEXT: %8 = tiny.reshape %a : !tiny.tensor<[512], f32> -> !tiny.tensor<[8, 64], f32>
// CHECK-NEXT: tiny.output %2, %4, %5, %7, %8 : !tiny.tensor<[512, 512], f32>, !tiny.tensor<[M], f32>, !tiny.tensor<[512], f32>, !tiny.tensor<[512], f32>, !tiny.tensor<[8, 64], f32>
// CHECK-NEXT: }
tiny.graph @stays(%x: !tiny.tensor<[M], f32>, %a: !tiny.tensor<[512], f32> {storage = "const_pool"}, %b: !tiny.tensor<[M], f32> {storage = "const_pool"}, %c: !tiny.tensor<[512], f32> {storage = "const_pool", mutability = "mutable"}) -> (A: !tiny.tensor<[512, 512], f32>, B: !tiny.tensor<[M], f32>, C: !tiny.tensor<[512], f32>, D: !tiny.tensor<[512], f32>, E: !tiny.tensor<[8, 64], f32>) {
  %0 = tiny.expand %a dims [0] : !tiny.tensor<[512], f32> -> !tiny.tensor<[512, 512], f32>
  %1 = tiny.expand %a dims [1] : !tiny.tensor<[512], f32> -> !tiny.tensor<[512, 512], f32>
  %2 = tiny.binary mul %0, %1 : !tiny.tensor<[512, 512], f32>
  %3 = tiny.unary exp %b : !tiny.tensor<[M], f32>
  %4 = tiny.binary add %x, %3 : !tiny.tensor<[M], f32>
  %5 = tiny.unary exp %c : !tiny.tensor<[512], f32>
  %6 = tiny.mask %a where affine_set<(d0)[s0] : (-d0 + s0 - 1 >= 0)> fill 0.0 : !tiny.tensor<[512], f32> -> !tiny.tensor<[512], f32>
  %7 = tiny.unary exp %6 : !tiny.tensor<[512], f32>
  %8 = tiny.reshape %a : !tiny.tensor<[512], f32> -> !tiny.tensor<[8, 64], f32>
  tiny.output %2, %4, %5, %7, %8 : !tiny.tensor<[512, 512], f32>, !tiny.tensor<[M], f32>, !tiny.tensor<[512], f32>, !tiny.tensor<[512], f32>, !tiny.tensor<[8, 64], f32>
}
