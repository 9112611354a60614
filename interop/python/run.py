"""Runs every test and ends with one line: N passed, N failed.

    run.py [--in DIRECTORY] [TEST]...      without a directory those beside this file, without names all of them
"""

import pathlib
import sys
import unittest


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    here = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(here))
    names = sys.argv[1:]
    if names[:1] == ["--in"]:
        # Those tests start the servers of this directory as well.
        here = pathlib.Path(names[1]).resolve()
        names = names[2:]
        sys.path.insert(0, str(here))
    loader = unittest.defaultTestLoader
    tests = loader.loadTestsFromNames(names) if names else loader.discover(str(here), top_level_dir=str(here))
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=2)
    result = runner.run(tests)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return 1 if failed or not result.passed else 0


if __name__ == "__main__":
    sys.exit(main())
