// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of the dialect; the message says which, with the values.

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: gemm contracts sizes K and J, which differ: a is [M, K], b is [J, N]; transpose an operand or correct a shape
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[J, N], f16>)
    -> !frontend.tensor<[M, N], f16> {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[J, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %0 : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: gemm contracts sizes M and K, which differ: a is [M, K] transposed, b is [K, N]
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>)
    -> !frontend.tensor<[K, N], f16> {
  %0 = frontend.gemm %A, %B {transpose_a, acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[K, N], f16>
  frontend.output %0 : !frontend.tensor<[K, N], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: gemm contracts sizes K and 8 * (K floordiv 8), which differ
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[8 * (K floordiv 8), N], f16>)
    -> !frontend.tensor<[M, N], f16> {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[8 * (K floordiv 8), N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %0 : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: gemm of [M, K] and [K, N] is [M, N]; the result says [N, M]
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>)
    -> !frontend.tensor<[N, M], f16> {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[N, M], f16>
  frontend.output %0 : !frontend.tensor<[N, M], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: gemm multiplies matrices; operand b is !frontend.tensor<[K], f16> of rank 1, give 2 axes or more
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K], f16>)
    -> !frontend.tensor<[M], f16> {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K], f16>) -> !frontend.tensor<[M], f16>
  frontend.output %0 : !frontend.tensor<[M], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: gemm operands have one element type, not f16 and bf16; cast one of them
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], bf16>)
    -> !frontend.tensor<[M, N], f16> {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], bf16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %0 : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gemm of f16 gives f16 or f32, not bf16; cast the result
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>)
    -> !frontend.tensor<[M, N], bf16> {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], bf16>
  frontend.output %0 : !frontend.tensor<[M, N], bf16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: add cannot broadcast [M, K] and [M], aligned at the right; sizes there are equal or one of them is 1
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>, %b: !frontend.tensor<[M], f16>)
    -> !frontend.tensor<[M, K], f16> {
  %0 = frontend.elementwise add %A, %b : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[M], f16>) -> !frontend.tensor<[M, K], f16>
  frontend.output %0 : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: add of [M, K] and [1] is [M, K]; the result says [K, M]
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>, %b: !frontend.tensor<[1], f16>)
    -> !frontend.tensor<[K, M], f16> {
  %0 = frontend.elementwise add %A, %b : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[1], f16>) -> !frontend.tensor<[K, M], f16>
  frontend.output %0 : !frontend.tensor<[K, M], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: add has one element type; an operand has f32, the result f16; add a frontend.cast
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>, %b: !frontend.tensor<[K], f32>)
    -> !frontend.tensor<[M, K], f16> {
  %0 = frontend.elementwise add %A, %b : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K], f32>) -> !frontend.tensor<[M, K], f16>
  frontend.output %0 : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: wobble is not an elementwise function; there are abs, acos, {{.*}} of one operand and add, and, atan2, {{.*}} of two
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> !frontend.tensor<[M, K], f16> {
  %0 = frontend.elementwise wobble %A : !frontend.tensor<[M, K], f16>
  frontend.output %0 : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: wobble is not an elementwise function; there are abs,
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> !frontend.tensor<[M, K], f16> {
  %0 = "frontend.elementwise"(%A) <{fn = "wobble"}> : (!frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, K], f16>
  frontend.output %0 : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: add takes 2 operands, not 1
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> !frontend.tensor<[M, K], f16> {
  %0 = frontend.elementwise add %A : !frontend.tensor<[M, K], f16>
  frontend.output %0 : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a cast keeps the shape; the operand is [M, K], the result [K, M]
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> !frontend.tensor<[K, M], f16> {
  %0 = frontend.cast %A : !frontend.tensor<[M, K], f16> -> !frontend.tensor<[K, M], f16>
  frontend.output %0 : !frontend.tensor<[K, M], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: output C of @f is !frontend.tensor<[K, M], f16> in the signature; the value is !frontend.tensor<[M, K], f16>
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> !frontend.tensor<[K, M], f16> {
  frontend.output %A : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: output C of @f is !frontend.tensor<[M, K], f32> in the signature; the value is !frontend.tensor<[M, K], f16>
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> !frontend.tensor<[M, K], f32> {
  frontend.output %A : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: @f has 2 outputs, and 1 are given
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> (!frontend.tensor<[M, K], f16>, !frontend.tensor<[M, K], f16>) {
  frontend.output %A : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: @f has no output; a graph computes at least one
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> () {
  "frontend.output"() : () -> ()
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: size -3 of axis 1 in [M, -3] is negative; a size is 0 or more
frontend.graph @f(%A: !frontend.tensor<[M, 2 - 5], f16>)
    -> !frontend.tensor<[M, 2 - 5], f16> {
  frontend.output %A : !frontend.tensor<[M, 2 - 5], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: the right side of floordiv is a positive integer constant
frontend.graph @f(%A: !frontend.tensor<[M floordiv 0], f16>)
    -> !frontend.tensor<[M], f16> {
  frontend.output %A : !frontend.tensor<[M], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: f64 is not an element type of frontend.tensor; it has f16, bf16, f32, i8, i16, i32, i64, ui8, ui16, ui32, ui64, i1
frontend.graph @f(%A: !frontend.tensor<[M], f64>)
    -> !frontend.tensor<[M], f64> {
  frontend.output %A : !frontend.tensor<[M], f64>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: inputs and outputs are !frontend.tensor, not i32
frontend.graph @f(%A: i32)
    -> i32 {
  frontend.output
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: the assumption P mod 8 == 0 names P, which is not among the symbols M, K of @f
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> !frontend.tensor<[M, K], f16> assuming (P mod 8 == 0) {
  frontend.output %A : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: symbol P of the result is not in the signature of @f, whose symbols are M, K
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> !frontend.tensor<[M, K], f16> {
  %0 = frontend.cast %A : !frontend.tensor<[M, K], f16> -> !frontend.tensor<[M, P], f16>
  frontend.output %A : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: output name A of @f is taken; inputs and outputs have different names
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> (A: !frontend.tensor<[M, K], f16>) {
  frontend.output %A : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: output name X of @f is taken; inputs and outputs have different names
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> (X: !frontend.tensor<[M, K], f16>, X: !frontend.tensor<[M, K], f16>) {
  frontend.output %A, %A : !frontend.tensor<[M, K], f16>, !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: A.b of @f is not a name; tensors and symbols are named with letters, digits and _, and do not begin with a digit
frontend.graph @f(%A.b: !frontend.tensor<[M, K], f16>)
    -> !frontend.tensor<[M, K], f16> {
  frontend.output %A.b : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: role is "data" or "param", not "weight"
frontend.graph @f(%A: !frontend.tensor<[M, K], f16> {role = "weight"})
    -> !frontend.tensor<[M, K], f16> {
  frontend.output %A : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: align is a power of two in bytes, such as 16, not 12 : i64
frontend.graph @f(%A: !frontend.tensor<[M, K], f16> {align = 12})
    -> !frontend.tensor<[M, K], f16> {
  frontend.output %A : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: noalias is true or false, not "yes"
frontend.graph @f(%A: !frontend.tensor<[M, K], f16> {noalias = "yes"})
    -> !frontend.tensor<[M, K], f16> {
  frontend.output %A : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: rank says nothing about a tensor; there are role, mutability, storage, entry, made, align, noalias
frontend.graph @f(%A: !frontend.tensor<[M, K], f16> {rank = 2})
    -> !frontend.tensor<[M, K], f16> {
  frontend.output %A : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: the body of @f does not end in frontend.output
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> !frontend.tensor<[M, K], f16> {
  %0 = frontend.elementwise relu %A : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: @f lists the symbols K, M; its types have M, K, in this order
"frontend.graph"() <{sym_name = "f", function_type = (!frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, K], f16>, arg_names = ["A"], res_names = ["C"], arg_attrs = [{}], res_attrs = [{}], symbols = ["K", "M"], assumptions = #polyc.assumptions<()>}> ({
^bb0(%A: !frontend.tensor<[M, K], f16>):
  frontend.output %A : !frontend.tensor<[M, K], f16>
}) : () -> ()

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: @f has 1 inputs and 2 entries for them; names and attributes have one each
"frontend.graph"() <{sym_name = "f", function_type = (!frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, K], f16>, arg_names = ["A", "B"], res_names = ["C"], arg_attrs = [{}], res_attrs = [{}], symbols = ["M", "K"], assumptions = #polyc.assumptions<()>}> ({
^bb0(%A: !frontend.tensor<[M, K], f16>):
  frontend.output %A : !frontend.tensor<[M, K], f16>
}) : () -> ()

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the block of @f takes (!frontend.tensor<[K, M], f16>), its signature (!frontend.tensor<[M, K], f16>)
"frontend.graph"() <{sym_name = "f", function_type = (!frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, K], f16>, arg_names = ["A"], res_names = ["C"], arg_attrs = [{}], res_attrs = [{}], symbols = ["M", "K"], assumptions = #polyc.assumptions<()>}> ({
^bb0(%A: !frontend.tensor<[K, M], f16>):
  %1 = builtin.unrealized_conversion_cast %A : !frontend.tensor<[K, M], f16> to !frontend.tensor<[M, K], f16>
  frontend.output %1 : !frontend.tensor<[M, K], f16>
}) : () -> ()

// -----

// CHECK: invalid.mlir:{{[0-9]+}}:1: error[InvalidIR]: the assumptions of @f hold at no sizes: M mod 4 == 1, M mod 2 == 0; take one of them back
frontend.graph @f(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32> assuming (M mod 4 == 1, M mod 2 == 0) {
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+}}:3: error[InvalidIR]: @g stands inside of @f; a graph holds no graph: put it beside
frontend.graph @f(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32> {
  frontend.graph @g(%y: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32> {
    frontend.output %y : !frontend.tensor<[M], f32>
  }
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+}}:3: error[InvalidIR]: arith.constant gives i32, and the values of a graph are tensors
frontend.graph @f(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32> {
  %c = arith.constant 1 : i32
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// An attribute that is nearly a property is one that was meant; others are kept.

// CHECK: invalid.mlir:{{[0-9]+}}:3: error[InvalidIR]: frontend.gemm has no transpos_b; did you mean transpose_b?
frontend.graph @f(%x: !frontend.tensor<[M, M], f32>) -> !frontend.tensor<[M, M], f32> {
  %0 = frontend.gemm %x, %x {acc = f32, transpos_b} : (!frontend.tensor<[M, M], f32>, !frontend.tensor<[M, M], f32>) -> !frontend.tensor<[M, M], f32>
  frontend.output %0 : !frontend.tensor<[M, M], f32>
}
