"""Servers, browsers and packages of the system that the demo, the tests and the benchmarks start or install."""
