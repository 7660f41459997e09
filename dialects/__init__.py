"""The dialects: ops, types and verifiers."""

from polyc.dialects.common import later

later.install()  # before xDSL is imported
