// RUN: polyc-opt %s -p region-srnf{classes=fast} --verify-diagnostics | filecheck %s
// CHECK: error[BadPassOption]: region-srnf has no class fast of changes; there are exact, reassociating, rounding, finite-only
builtin.module {
}
