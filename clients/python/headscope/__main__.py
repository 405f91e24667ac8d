"""`python -m headscope`, and the command `headscope` of a wheel: this process becomes the program."""
import os
import sys

from .program import BUNDLED, find_program


def main() -> None:
    """Replaces this process by the program, so that signals reach it and its exit status is the command's."""
    # Not $HEADSCOPE, which may name the command itself.
    program = str(BUNDLED) if BUNDLED.is_file() else find_program()
    if not program:
        sys.exit("headscope: this package came without the program, and no headscope is on the PATH: install a wheel that "
                 "has it, or build it with `make`")
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"headscope: cannot run {program}: {error.strerror}")


if __name__ == "__main__":
    main()
