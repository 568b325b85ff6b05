"""The composition roots: the only modules that know concrete classes."""
