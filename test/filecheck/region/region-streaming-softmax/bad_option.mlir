// RUN: polyc-opt %s -p region-streaming-softmax{classes=fast} --verify-diagnostics | filecheck %s
// CHECK: error[BadPassOption]: region-streaming-softmax has no class fast of changes; there are exact, reassociating, rounding, finite-only
builtin.module {
}
