"""Where the command ``kafka-reassignment`` begins."""

from __future__ import annotations

from kafka_reassignment.interrupts import end_at_ctrl_c


def main() -> None:
    """Run the command line, and exit with its code."""
    end_at_ctrl_c()
    from kafka_reassignment.cli import app  # noqa: PLC0415 - it takes a second, in which people press Ctrl-C too

    app()


if __name__ == "__main__":
    main()
