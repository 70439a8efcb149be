"""The commands of `hookgate`: a module or a package for each, and what they share in `common`."""
