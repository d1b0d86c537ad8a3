"""Filter of `make lock`: standard input is uv's resolution, standard output is requirements.lock.

Three things are taken out. The editable line of this project, since it is installed by itself.
CUDA packages, since the torch wheel of the platform names its own and CPU builds need none. The
local version tag of torch (``+cpu``), since a plain pin takes the right build everywhere.
"""

import re
import sys

HEADER = """\
# Every package of the workbook, pinned for Python 3.10 to 3.14. Made by `make lock`; do not edit.
"""
CUDA = re.compile(r"^(nvidia-|cuda-|triton\b|pytorch-triton\b)")


def main() -> None:
    lines = [line.rstrip() for line in sys.stdin]
    kept = [line for line in lines if line and not CUDA.match(line) and not line.startswith(("-e ", "torch=="))]
    version = next(match[1] for line in lines if (match := re.match(r"torch==([0-9.]+)", line)))
    print(HEADER + "\n".join(sorted([*kept, f"torch=={version}"], key=str.lower)))


if __name__ == "__main__":
    main()
