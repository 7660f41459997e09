"""The commands of ``polyc``: one file each."""
