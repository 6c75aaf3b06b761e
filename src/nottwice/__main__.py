"""``python -m nottwice`` is the command ``nottwice``."""

from nottwice.cli.main import main

if __name__ == "__main__":
    main()
