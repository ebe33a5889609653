"""The root file systems of the image's layers, as folders: interpreter, requirements, product.

The interpreter is the one that runs this, with the shared libraries that it and the requirements
load. So the image is for this machine's processor.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = Path("opt/python")
PACKAGES = Path("opt/muster/packages")
PRODUCT = Path("opt/muster/product")
RUN = Path("var/lib/muster")
USER = 65532
NOT_NEEDED = (
    *("__pycache__", "site-packages", "dist-packages", "sitecustomize.py", "ensurepip", "*.a"),
    *("test", "tests", "_test*", "_ctypes_test.*", "lib2to3", "pydoc_data", "config-*"),
    *("idlelib", "tkinter", "turtledemo", "_tkinter.*", "_curses*", "readline.*"),
    *("_gdbm.*", "_dbm.*", "nis.*"),
)
"""Of the standard library: what only tests, desktops and terminals load."""
LAUNCHER = f"""#!/{PYTHON}/bin/python3 -Iu
import sys

from muster.__main__ import main

sys.exit(main())
"""
_LIBRARY = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x", re.MULTILINE)


def python_root(root: Path, packages: Path) -> list[Path]:
    """Write the interpreter, and the libraries that it and the packages load. Return the latter."""
    home = root / PYTHON
    version = f"python{sysconfig.get_python_version()}"
    (home / "bin").mkdir(parents=True)
    shutil.copy2(os.path.realpath(sys.executable), home / "bin" / "python3")
    left_out = shutil.ignore_patterns(*NOT_NEEDED)
    shutil.copytree(sysconfig.get_path("stdlib"), home / "lib" / version, ignore=left_out)
    programs = [home / "bin" / "python3", *home.rglob("*.so"), *packages.rglob("*.so*")]
    loaded = libraries(programs, packages)
    for name, path in loaded.items():
        # The loader has a fixed place; for the rest it looks into /usr/lib.
        target = root / (path.relative_to("/") if "ld-linux" in name else Path("usr/lib") / name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path.resolve(), target)
    _compile(root, home / "lib")
    paths = home / "lib" / version / "site-packages" / "muster.pth"
    paths.parent.mkdir()
    paths.write_text(f"/{PRODUCT}\n/{PACKAGES}\n", encoding="ascii")
    _system_files(root)
    return sorted(path.resolve() for path in loaded.values())


def _system_files(root: Path) -> None:
    """Write what programs expect of a system: a user, names, folders."""
    for folder in ("etc", "tmp", RUN):
        (root / folder).mkdir(parents=True, exist_ok=True)
    user = f"muster:x:{USER}:{USER}::/{RUN}:/nologin\n"
    (root / "etc/passwd").write_text(f"root:x:0:0::/:/nologin\n{user}", encoding="ascii")
    (root / "etc/group").write_text(f"root:x:0:\nmuster:x:{USER}:\n", encoding="ascii")
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n", encoding="ascii")


def libraries(programs: Iterable[Path], own: Path) -> dict[str, Path]:
    """Return the shared libraries of the system that programs load, by the name they ask for, but
    those below the folder `own`: wheels bring some of theirs.
    """
    found: dict[str, Path] = {}
    for program in programs:
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
        if "not found" in done.stdout:
            raise SystemExit(f"{program}: a library is missing:\n{done.stdout}")
        for name, path in _LIBRARY.findall(done.stdout):
            if not path.startswith(str(own)):
                found[name or Path(path).name] = Path(path)
    return dict(sorted(found.items()))


def packages_root(root: Path) -> Path:
    """Install the locked requirements. Return their folder."""
    folder = root / PACKAGES
    lock = REPOSITORY / "requirements" / "run.txt"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    locked = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--requirement", str(lock)]
    subprocess.run([*pip, *locked, "--no-compile", "--target", str(folder)], check=True)
    # Their commands name this machine's interpreter.
    shutil.rmtree(folder / "bin", ignore_errors=True)
    _compile(root, folder)
    return folder


def product_root(root: Path) -> None:
    """Write Muster itself, and the program `muster`."""
    for name in ("muster", "services", "shared"):
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, root / PRODUCT / name, ignore=left_out)
    _compile(root, root / PRODUCT)
    program = root / "usr/bin/muster"
    program.parent.mkdir(parents=True)
    program.write_text(LAUNCHER, encoding="ascii")
    program.chmod(0o755)
    license_file = root / "usr/share/doc/muster/LICENSE"
    license_file.parent.mkdir(parents=True)
    shutil.copy2(REPOSITORY / "LICENSE", license_file)


def _compile(root: Path, folder: Path) -> None:
    """Compile to byte code that is never checked: nothing can be written there, or changes."""
    words = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    paths = ["-s", str(root), "-p", "/", str(folder)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    # What is no Python in spite of its name is reported, and stays as it is.
    subprocess.run([sys.executable, *words, *paths], check=False, env=environment)
