"""What ``polyc.from_onnx`` stands on: files, nodes, and the converters of ONNX's ops by group.

A converter takes a ``Node`` (``node.py``) and gives the node's outputs.  ``groups`` imports the
modules in which they are registered.
"""
