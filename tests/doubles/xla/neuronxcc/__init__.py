"""Double of the compiler package: only its version is read."""

__version__ = "2.22.12471.0+b4a00d10"
