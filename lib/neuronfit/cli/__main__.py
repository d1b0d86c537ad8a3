"""`python -m neuronfit.cli`, where the command itself is not on the path."""

from neuronfit.cli import main

if __name__ == "__main__":
    main()
