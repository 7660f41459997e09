"""Models from outside: ``polyc.from_exported`` of PyTorch's programs, ``polyc.from_onnx`` of files.

An importer walks a model's ops and says each by its converter (``registry.py``) through the typed
builder of ``trace``.  What comes out is ``Imported``: a module, and the parameters that it names.
What cannot be said is one diagnostic with all that is missing.  Neither PyTorch nor onnx is
imported before a model of theirs is.
"""
