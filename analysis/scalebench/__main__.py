"""``python -m scalebench``: the command without its installed script."""

from scalebench.cli import main

if __name__ == "__main__":
    main()
