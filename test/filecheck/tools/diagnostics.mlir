// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Lines and columns count in the whole file, also in its later pieces.

// CHECK: diagnostics.mlir:7:8: error[ParseError]: Operation arith.constnt is not registered; did you mean arith.constant?

// The position is that of the name.
  %0 = arith.constnt 1 : i32

// -----

// CHECK: diagnostics.mlir:13:3: error[InvalidIR]: a number in this op does not fit its type
"builtin.module"() ({
  %0 = arith.constant 1.0e10 : f16
}) : () -> ()

// -----

// CHECK: arith.constant 2 : i32
%0 = arith.constant 2 : i32
