"""The options that programs of this folder share, each with one name and one meaning."""

import argparse
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
MESSAGE_MAX = 2_000  # characters

SHARED = {
    "row": {"default": "", "help": "only rows whose name has this in it"},
    "only": {"default": "", "help": "only those whose name has this in it"},
    "free": {"action": "store_true", "help": "let the system place the processes"},
    "syscalls": {"choices": ["strace", "none"], "default": "strace",
                 "help": "how they are counted"},
    "file": {"type": Path, "help": "default: bench/files.data in the build folder"},
    "no-save": {"action": "store_true", "help": "print the tables only"},
    "against": {"type": Path, "metavar": "FOLDER",
                "help": "an older build: Baton's own sides against those of it"},
}


class OptionParser(argparse.ArgumentParser):
    """--build, --rounds, --seconds and --quick where they have defaults, and some of SHARED.
    `quick` is what --quick sets: rounds, seconds."""

    def __init__(self, document, *shared, rounds=None, seconds=None, quick=None):
        super().__init__(description=document.split("\n\n")[0])
        self.quick = quick
        self.add_argument("--build", type=Path, default=REPOSITORY / "build")
        if rounds is not None:
            self.add_argument("--rounds", type=int, default=rounds)
        if seconds is not None:
            self.add_argument("--seconds", type=type(seconds), default=seconds,
                              help="length of a round")
        if quick is not None:
            self.add_argument("--quick", action="store_true",
                              help=f"{quick[0]} rounds of {quick[1]} s: rough")
        for name in shared:
            self.add_argument("--" + name, **SHARED[name])

    def parse_args(self):
        options = super().parse_args()
        options.build = options.build.resolve()
        if self.quick and options.quick:
            options.rounds, options.seconds = self.quick
        if getattr(options, "rounds", 1) < 1:
            self.error("--rounds must be at least 1")
        if getattr(options, "against", None) is not None:
            options.against = options.against.resolve()
            if not (options.against / "bin" / "baton").exists():
                self.error(f"--against: {options.against} is no build folder: it has no bin/baton")
        if "file" in options and options.file is None:
            options.file = options.build / "bench" / "files.data"
        return options

    def error(self, message):
        """Quotes a part of a long word only."""
        if len(message) > MESSAGE_MAX:
            message = message[:300] + " ... " + message[-300:]
        super().error(message)
