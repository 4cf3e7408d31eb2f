"""``python -m scalecurve``: the command without its installed script."""

from scalecurve.cli import main

if __name__ == "__main__":
    main()
