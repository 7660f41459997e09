// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of the dialect; the message says which, with the values.

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: reshape keeps the number of elements; [M, N] has M * N, [M, N, 2] has 2 * M * N
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.reshape %x : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N, 2], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: reshape keeps the number of elements; [M, K] has K * M, [M, K floordiv 8, 8] has 8 * (K floordiv 8) * M
frontend.graph @f(%x: !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, K], f16> {
  %r = frontend.reshape %x : !frontend.tensor<[M, K], f16> -> !frontend.tensor<[M, K floordiv 8, 8], f16>
  frontend.output %x : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: reshape keeps the element type; the operand has f16, the result bf16
frontend.graph @f(%x: !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, K], f16> {
  %r = frontend.reshape %x : !frontend.tensor<[M, K], f16> -> !frontend.tensor<[M, K], bf16>
  frontend.output %x : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: perm [0] is not an order of the 2 axes of [M, N]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.permute %x perm [0] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: perm [0, 0] is not an order of the 2 axes of [M, N]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.permute %x perm [0, 0] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, M], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: [M, N] in the order [1, 0] is [N, M]; the result says [M, N]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.permute %x perm [1, 0] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: expand names 1 dimensions for an operand of rank 2; name one for each operand axis
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.expand %x dims [0] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N, 2], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: dims [1, 0] of an expand do not increase; put a frontend.permute before it
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.expand %x dims [1, 0] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[N, M], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: expand maps axis 1 of size N to axis 2 of size M, from [M, N] to [M, 2, M]; the sizes are equal or the operand's is 1
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.expand %x dims [0, 2] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, 2, M], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: dims [0, 3] of an expand point outside the result's axes, which are 0 to 2
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.expand %x dims [0, 3] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, 2, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pad has 1 low sizes for an operand of rank 2; give one for each axis
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.pad %x low [1] high [0, 0] value 0.0 : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M + 1, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pad adds -1 elements at the low end of axis 1, which may be negative; use a slice to remove elements, or assume the size to be 0 or more
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.pad %x low [0, -1] high [0, 0] value 0.0 : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N - 1], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pad adds M - N elements at the high end of axis 1, which may be negative; use a slice to remove elements, or assume the size to be 0 or more
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.pad %x low [0, 0] high [0, M - N] value 0.0 : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, M], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: symbol P in high of a pad is not in the signature of @f, whose symbols are M, N; use one of these or add an input that has it
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.pad %x low [0, 0] high [0, P] value 0.0 : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: [M, N] padded by [0, 1] and [0, 1] is [M, N + 2]; the result says [M, N]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.pad %x low [0, 1] high [0, 1] value 0.0 : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pad computes with numbers, not i1; use frontend.select or a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, N], i1>) -> !frontend.tensor<[M, N], i1> {
  %r = frontend.pad %x low [0, 1] high [0, 1] value 0.0 : !frontend.tensor<[M, N], i1> -> !frontend.tensor<[M, N + 2], i1>
  frontend.output %x : !frontend.tensor<[M, N], i1>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: slice has 1 starts for an operand of rank 2; give one for each axis
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.slice %x [0:M] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[NonSCoP]: slice steps by M along axis 1, and a symbolic step is not affine; give an integer
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.slice %x [0:M, 0:N:M] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[NegativeStrideUnsupported]: slice steps by -1 along axis 1; a view goes forward, give a step of 1 or more
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.slice %x [0:M, 0:N:-1] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: slice steps by 0 along axis 1; give a step of 1 or more
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.slice %x [0:M, 0:N:0] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[UnguardedAccess]: slice [-4:N] starts before axis 1 of size N, as far as the assumptions say; count from the start, as in N - 4
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.slice %x [0:M, -4:N] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N + 4], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[UnguardedAccess]: slice [0:N + 1] ends beyond axis 1 of size N, as far as the assumptions say; correct it, or assume what makes N + 1 <= N hold
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.slice %x [0:M, 0:N + 1] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N + 1], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[UnguardedAccess]: slice [0:4] ends beyond axis 1 of size N, as far as the assumptions say; correct it, or assume what makes 4 <= N hold
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.slice %x [0:M, 0:4] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, 4], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[UnguardedAccess]: slice [0:4] ends beyond axis 1 of size N, as far as the assumptions say; correct it, or assume what makes 4 <= N hold
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> assuming (N >= 3) {
  %r = frontend.slice %x [0:M, 0:4] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, 4], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: slice [0:M, 1:N:2] of [M, N] is [M, N floordiv 2]; the result says [M, N]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.slice %x [0:M, 1:N:2] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: symbol P in the ends of a slice is not in the signature of @f, whose symbols are M, N; use one of these or add an input that has it
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.slice %x [0:M, 0:P] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis 2 of a concat is not an axis of [M, N], which are 0 to 1
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.concat %x, %w axis 2 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, N + K], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: concat along axis 1 takes equal sizes along the others; operand 0 is [M, N], operand 1 is [N, K]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[N, K], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.concat %x, %w axis 1 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N, K], f16>) -> !frontend.tensor<[M, N + K], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: concat along axis 1 takes equal sizes along the others; operand 0 is [M, N], operand 1 is [M]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[M], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.concat %x, %w axis 1 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: operand 1 of a concat has element type f16, not f32; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.concat %x, %w axis 1 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, N + K], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of this concat is [M, K + N], not [M, N]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.concat %x, %w axis 1 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_movements.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: concat has no operand; give at least one
frontend.graph @f(%x: !frontend.tensor<[M], f16>) -> !frontend.tensor<[M], f16> {
  %r = "frontend.concat"() <{axis = 0 : i64}> : () -> !frontend.tensor<[M], f16>
  frontend.output %x : !frontend.tensor<[M], f16>
}
