"""Runs at the start of every Python process of a recorded command, as its `sitecustomize`.

`kinspect record` copies this file into an empty folder and puts that folder first on PYTHONPATH.
A process that never imports Triton gets one more entry in `sys.meta_path` and nothing else; where
Triton is imported, the recorder is loaded right after it. An error here is reported, and the user's
program runs on.

Old interpreters without a Triton run this file too: hence its plain syntax.
"""

import os
import sys

PACKAGE = "_kinspect_record"
FOLDER_VARIABLE = "KINSPECT_RECORD_FOLDER"  # takes the processes' journals
SOURCES_VARIABLE = "KINSPECT_RECORD_SOURCES"  # the folder of recorder.py


class AfterTriton:
    """A finder that wraps the loader of Triton, which the other finders provide.

    `callback`: called with the package, once it is complete.
    """

    def __init__(self, callback):  # type: ignore[no-untyped-def]
        self.callback = callback

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        """The other finders' spec of Triton, with a loader that calls `callback` at the end."""
        if name != "triton" or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = Completing(spec.loader, self.callback)  # type: ignore[no-untyped-call]
                return spec
        sys.meta_path.insert(0, self)  # not found: the program may extend sys.path later
        return None


class Completing:
    """A package's own loader; calls `callback` when the package has been loaded."""

    def __init__(self, loader, callback):  # type: ignore[no-untyped-def]
        self.loader = loader
        self.callback = callback

    def __getattr__(self, name):  # type: ignore[no-untyped-def]
        return getattr(self.loader, name)

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        """Loads the package as its own loader does, puts that loader back, and calls `callback`."""
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        try:
            self.callback(module)
        except Exception as error:
            sys.stderr.write("kinspect: not recording this process: {!r}\n".format(error))  # noqa: UP032


def record(triton):  # type: ignore[no-untyped-def]
    """Loads the recorder under a private name and lets it watch this Triton."""
    import importlib
    import importlib.util

    sources, folder = os.environ[SOURCES_VARIABLE], os.environ[FOLDER_VARIABLE]
    if not os.path.isdir(folder):  # the recorded command has ended; this is a daemon it left behind
        return
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(sources, "__init__.py"), submodule_search_locations=[sources]
    )
    if spec is None or spec.loader is None:
        raise ImportError(sources)
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    importlib.import_module(PACKAGE + ".recorder").install(triton, folder)


def hand_over():  # type: () -> None
    """Runs the sitecustomize that this file hid, if any.

    This file's folder stays on sys.path, which programs pass to their children as PYTHONPATH
    (Inductor does, to the processes in which it compiles).
    """
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    folder = os.path.dirname(os.path.abspath(__file__))
    search_path = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != folder]
    spec = PathFinder.find_spec("sitecustomize", search_path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if sys.version_info[0] >= 3:  # noqa: UP036  (whatever the command starts)
    if FOLDER_VARIABLE in os.environ and SOURCES_VARIABLE in os.environ:
        sys.meta_path.insert(0, AfterTriton(record))  # type: ignore[no-untyped-call]
    hand_over()
