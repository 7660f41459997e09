// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of the dialect; the message says which, with the values.

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pad adds 0.1, which f16 does not hold; add a tiny.cast to f32
tiny.graph @f(%x: !tiny.tensor<[M], f16>) -> !tiny.tensor<[M], f16> {
  %r = tiny.pad %x low [0] high [0] value 0.1 : !tiny.tensor<[M], f16> -> !tiny.tensor<[M], f16>
  tiny.output %x : !tiny.tensor<[M], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[NonSCoP]: slice steps by M along axis 1, and a symbolic step is not affine; give an integer
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.slice %x [0:M, 0:N:M] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[NegativeStrideUnsupported]: slice steps by -1 along axis 1; a view goes forward, give a step of 1 or more
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.slice %x [0:M, 0:N:-1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[UnguardedAccess]: slice [0:4] ends beyond axis 1 of size N, as far as the assumptions say; correct it, or assume what makes 4 <= N hold
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.slice %x [0:M, 0:4] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, 4], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: reshape keeps the number of elements; [M, N] has M * N, [M, N, 2] has 2 * M * N
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.reshape %x : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N, 2], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pad adds -1 elements at the low end of axis 1, which may be negative; use a slice to remove elements, or assume the size to be 0 or more
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.pad %x low [0, -1] high [0, 0] value 0.0 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N - 1], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [2] of a window are different axes of [M, N] in increasing order, 0 to 1
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.window %x axes [2] size [3] stride [1] dilation [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N - 2, 3], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a window names at least one axis
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.window %x axes [] size [] stride [] dilation [] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [1, 0] of a window are different axes of [M, N] in increasing order, 0 to 1
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.window %x axes [1, 0] size [3, 3] stride [1, 1] dilation [1, 1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M - 2, N - 2, 3, 3], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: window has 2 sizes for 1 axes; give one for each
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.window %x axes [1] size [3, 3] stride [1] dilation [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N - 2, 3], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: window has 2 strides for 1 axes; give one for each
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.window %x axes [1] size [3] stride [1, 1] dilation [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N - 2, 3], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: window has 0 dilations for 1 axes; give one for each
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.window %x axes [1] size [3] stride [1] dilation [] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N - 2, 3], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: window has stride 0; a view goes forward, give 1 or more
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.window %x axes [1] size [3] stride [0] dilation [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N - 2, 3], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[NegativeStrideUnsupported]: window has stride -1; a view goes forward, give 1 or more
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.window %x axes [1] size [3] stride [-1] dilation [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N - 2, 3], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: window has dilation 0, whose elements are all one; give 1 or more, or -1 or less for a window that runs backwards
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.window %x axes [1] size [3] stride [1] dilation [0] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N - 2, 3], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: window takes M elements along axis 1, which may be none; assume the size to be 1 or more
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.window %x axes [1] size [M] stride [1] dilation [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N - M + 1, M], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: symbol P in the size of a window is not in the signature of @f, whose symbols are M, N; use one of these or add an input that has it
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.window %x axes [1] size [P] stride [1] dilation [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N, M], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the windows of [M, N] are [M, N - 2, 3]; the result says [M, N, 3]
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.window %x axes [1] size [3] stride [1] dilation [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N, 3], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a mask keeps the shape; the operand is [M, N], the result [N, M]
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0)> fill 0.0 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N, M], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the condition of a mask has 1 dimensions for the 2 axes of [M, N]; give one for each
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.mask %x where affine_set<(d0)[s0, s1] : (d0 >= 0)> fill 0.0 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the condition of a mask has 1 symbols; the signature of @f has 2: M, N
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.mask %x where affine_set<(d0, d1)[s0] : (d0 - d1 >= 0)> fill 0.0 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected an affine_set, not 3 : i64
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.mask %x where 3 fill 0.0 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: mask computes in f32 or an integer type; an operand has i1, add a tiny.cast
tiny.graph @f(%x: !tiny.tensor<[M, N], i1>) -> !tiny.tensor<[M, N], i1> {
  %r = tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0)> fill 0.0 : !tiny.tensor<[M, N], i1> -> !tiny.tensor<[M, N], i1>
  tiny.output %x : !tiny.tensor<[M, N], i1>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: symbol P in a dim is not in the signature of @f, whose symbols are M; use one of these or add an input that has it
tiny.graph @f(%x: !tiny.tensor<[M], f32>) -> !tiny.tensor<[M], f32> {
  %r = tiny.dim P : !tiny.tensor<[], f32>
  tiny.output %x : !tiny.tensor<[M], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a dim is a scalar of f32 or an integer type, not !tiny.tensor<[M], f32>
tiny.graph @f(%x: !tiny.tensor<[M], f32>) -> !tiny.tensor<[M], f32> {
  %r = tiny.dim M : !tiny.tensor<[M], f32>
  tiny.output %x : !tiny.tensor<[M], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis 2 of a sample is not an axis of [M, N], which are 0 to 1
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.sample %x axis 2 step 1 offset 0 divisor 2 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: sample has divisor 0, which is too small; give 1 or more
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.sample %x axis 1 step 1 offset 0 divisor 0 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: sample has step -1, which is too small; give 0 or more
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.sample %x axis 1 step -1 offset 0 divisor 1 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a sample along axis 1 of [M, N] keeps the other sizes; the result says [N, N]
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.sample %x axis 1 step 1 offset 0 divisor 1 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[UnguardedAccess]: sample reads (1 * i + 1) floordiv 2 of axis 1 for i from 0 up to 2 * N, which is not inside of its size N, as far as the assumptions say; read less, or assume it
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.sample %x axis 1 step 1 offset 1 divisor 2 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, 2 * N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[UnguardedAccess]: sample reads (1 * i + -1) floordiv 2 of axis 1 for i from 0 up to N, which is not inside of its size N, as far as the assumptions say; read less, or assume it
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.sample %x axis 1 step 1 offset -1 divisor 2 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: sample repeats the ends of axis 1, whose size N or 6 is no number; give numbers for both, or read what is inside
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, 6], f32> {
  %r = tiny.sample %x axis 1 step 2 offset -1 divisor 4 ends : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, 6], f32>
  tiny.output %r : !tiny.tensor<[M, 6], f32>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: sample reads the ends of axis 1, which has no element; give it one
tiny.graph @f(%x: !tiny.tensor<[M, 0], f32>) -> !tiny.tensor<[M, 6], f32> {
  %r = tiny.sample %x axis 1 step 2 offset -1 divisor 4 ends : !tiny.tensor<[M, 0], f32> -> !tiny.tensor<[M, 6], f32>
  tiny.output %r : !tiny.tensor<[M, 6], f32>
}
