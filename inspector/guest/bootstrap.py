"""Entry of the guest process: `PYTHON bootstrap.py REQUESTS_FD REPLIES_FD [warm]`.

`PYTHON bootstrap.py emulate REQUEST HANGUP_FD` runs one script on an emulated GPU instead.

A script's folder becomes `sys.path[0]`, where this package's module names (`cases`, `server`, ...)
would shadow the user's own. So the folder is taken off again before anything else is imported, and
the package is loaded from its path under a name that nobody else uses.
"""

import os
import sys

PACKAGE = "_kinspect_guest"


def main():  # type: () -> int
    """Loads the guest package and serves requests until the host closes its end.

    Returns:
        The exit status: 0 once the host has gone.
    """
    if sys.version_info < (3, 9):  # noqa: UP036  (this is not the interpreter kinspect runs in)
        sys.stderr.write("Python " + sys.version.split()[0] + " is too old: 3.9 is the oldest\n")
        return 3
    if sys.argv[1:2] == ["emulate"]:
        import signal

        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the script runs
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held by the host
    folder = os.path.dirname(os.path.abspath(__file__))
    # Under -P or PYTHONSAFEPATH the folder was never put there.
    if sys.path and os.path.abspath(sys.path[0]) == folder:
        del sys.path[0]

    import importlib
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError("cannot load the guest package from " + folder)
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    if sys.argv[1:2] == ["emulate"]:
        script = importlib.import_module(PACKAGE + ".emulation.script")
        return int(script.main(sys.argv[2], int(sys.argv[3])))
    server = importlib.import_module(PACKAGE + ".server")
    return int(server.serve(int(sys.argv[1]), int(sys.argv[2]), warm="warm" in sys.argv[3:]))


if __name__ == "__main__":
    # Nothing is left to clean up, and libtriton takes a while to unload.
    os._exit(main())
