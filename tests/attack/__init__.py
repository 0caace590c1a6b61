"""A bounded fuzzer of every promise: `make attack`, or `python -m attack` from the folder of the tests."""
