// RUN: polyc-opt %s -p region-distribute{classes=fast} --verify-diagnostics | filecheck %s
// CHECK: error[BadPassOption]: region-distribute has no class fast of changes; there are exact, reassociating, rounding, finite-only
builtin.module {
}
