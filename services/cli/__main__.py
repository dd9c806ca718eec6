"""`python -m services.cli`: how the lab starts processes."""

from services.cli import main

if __name__ == "__main__":
    main()
