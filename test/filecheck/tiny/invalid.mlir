// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of the dialect; the message says which, with the values.

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: softmax is not a function of tiny.unary; there are abs, acos, {{.*}}, tan, tanh, trunc
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.unary softmax %x : !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: softmax is not a function of tiny.unary; there are abs,
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = "tiny.unary"(%x) <{fn = "softmax"}> : (!tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: exp computes in f32 or an integer type; an operand has f16, add a tiny.cast
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>, %y: !tiny.tensor<[M, K], f16>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.unary exp %y : !tiny.tensor<[M, K], f16>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: relu is not a function of tiny.binary; there are add, and, atan2, div, fmod, max, min, mod, mul, or, philox, pow, shl, shr, sub, xor
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.binary relu %x, %x : !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: add takes equal shapes, not [M, K] and [K]; insert a tiny.expand
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>, %y: !tiny.tensor<[K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.binary add %x, %y : (!tiny.tensor<[M, K], f32>, !tiny.tensor<[K], f32>) -> !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: add takes equal shapes, not [M, K] and [1, K]; insert a tiny.expand
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>, %y: !tiny.tensor<[1, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.binary add %x, %y : (!tiny.tensor<[M, K], f32>, !tiny.tensor<[1, K], f32>) -> !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: add takes equal shapes, not [M, K] and [K, M]; insert a tiny.expand
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.binary add %x, %x : (!tiny.tensor<[M, K], f32>, !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[K, M], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected the types of 2 operands and one !tiny.tensor result
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.binary add %x, %x : (!tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: less is not a function of tiny.compare; there are eq, ge, gt, le, lt, ne
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.compare less %x, %x : !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of lt has element type i1, not f32
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.compare lt %x, %x : (!tiny.tensor<[M, K], f32>, !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the condition of a select has element type i1, not f32
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.select %x, %x, %x : (!tiny.tensor<[M, K], f32>, !tiny.tensor<[M, K], f32>, !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: each branch of a select has element type f32, not f16
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>, %y: !tiny.tensor<[M, K], f16>) -> !tiny.tensor<[M, K], f32> {
  %c = tiny.compare lt %x, %x : !tiny.tensor<[M, K], f32>
  %0 = tiny.select %c, %x, %y : (!tiny.tensor<[M, K], i1>, !tiny.tensor<[M, K], f32>, !tiny.tensor<[M, K], f16>) -> !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a constant is a scalar of f32 or an integer type, not !tiny.tensor<[M], f32>
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.constant 1.0 : !tiny.tensor<[M], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a cast keeps the shape; the operand is [M, K], the result [K, M]
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.cast %x : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[K, M], f16>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a cast converts between numbers, not f32 to i1; use tiny.select for a condition
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.cast %x : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K], i1>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: expand names 1 dimensions for an operand of rank 2; name one for each operand axis
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.expand %x dims [0] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, M], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: dims [0, 3] of an expand point outside the result's axes, which are 0 to 2
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.expand %x dims [0, 3] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, M], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: dims [2, 1] of an expand do not increase; put a tiny.permute before it
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.expand %x dims [2, 1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, M], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: expand maps axis 1 of size K to axis 2 of size M, from [M, K] to [M, K, M]; the sizes are equal or the operand's is 1
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.expand %x dims [0, 2] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, M], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: expand keeps the element type; the operand has f32, the result f16
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.expand %x dims [0, 1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, M], f16>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: perm [0, 0] is not an order of the 2 axes of [M, K]
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.permute %x perm [0, 0] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, M], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: [M, K] in the order [1, 0] is [K, M]; the result says [M, K]
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.permute %x perm [1, 0] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: mean is not a function of tiny.reduce; there are max, min, prod, sum
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.reduce mean %x axes [1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: sum computes in f32 or an integer type; an operand has f16, add a tiny.cast
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>, %y: !tiny.tensor<[M, K], f16>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.reduce sum %y axes [1] : !tiny.tensor<[M, K], f16> -> !tiny.tensor<[M], f16>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [2] of a reduce are different axes of [M, K] in increasing order, 0 to 1
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.reduce sum %x axes [2] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [1, 0] of a reduce are different axes of [M, K] in increasing order, 0 to 1
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.reduce sum %x axes [1, 0] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a reduce names at least one axis
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.reduce sum %x axes [] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: [M, K] reduced over axes [1] is [M]; the result says [K]
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.reduce sum %x axes [1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: symbol P of the result is not in the signature of @f, whose symbols are M, K
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.expand %x dims [0, 1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, P], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: output C of @f is !tiny.tensor<[M, K], f32> in the signature; the value is !tiny.tensor<[K, M], f32>
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.permute %x perm [1, 0] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[K, M], f32>
  tiny.output %0 : !tiny.tensor<[K, M], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: size -1 of axis 0 in [-1] is negative; a size is 0 or more
tiny.graph @f(%x: !tiny.tensor<[-1], f32>) -> !tiny.tensor<[-1], f32> {
  tiny.output %x : !tiny.tensor<[-1], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: f64 is not an element type of tiny.tensor; it has f16, bf16, f32, i8, i16, i32, i64, ui8, ui16, ui32, ui64, i1
tiny.graph @f(%x: !tiny.tensor<[M], f64>) -> !tiny.tensor<[M], f64> {
  tiny.output %x : !tiny.tensor<[M], f64>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: inputs and outputs are !tiny.tensor, not i32
tiny.graph @f(%x: i32) -> i32 {
  tiny.output
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: the body of @f does not end in tiny.output
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of exp is stored as f16 or bf16, not own f32
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.unary exp %x own f32 : !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of sum is stored as f16 or bf16, not own i1
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.reduce sum %x axes [0] own i1 : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of lt is own f16, and i1 where f32 may be
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.compare lt %x, %x own f16 : !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of select is own bf16, and f16 where f32 may be
tiny.graph @f(%c: !tiny.tensor<[M], i1>, %x: !tiny.tensor<[M], f16>) -> !tiny.tensor<[M], f16> {
  %0 = tiny.select %c, %x, %x own bf16 : !tiny.tensor<[M], f16>
  tiny.output %x : !tiny.tensor<[M], f16>
}

// -----

// CHECK: invalid.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: type expected
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M, K], f32> {
  %0 = tiny.unary exp %x own 16 : !tiny.tensor<[M, K], f32>
  tiny.output %x : !tiny.tensor<[M, K], f32>
}
