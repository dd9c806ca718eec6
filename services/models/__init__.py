"""Independent mathematics of the systems: pure functions on numbers and arrays that import nothing else of ours."""
