"""The launcher that `make` writes runs the checkout that it lies in, also after a move."""

import shutil
import subprocess
import sys
from pathlib import Path

SAYS = "import muster\n\n\ndef main():\n    print(muster.__file__)\n"


def test_a_moved_checkout_runs_its_own_code(tmp_path):
    made, moved = Path(sys.prefix), tmp_path / "moved"
    site = next(made.glob("lib/python*/site-packages"))
    new_site = moved / ".venv" / site.relative_to(made)
    new_site.mkdir(parents=True)
    shutil.copy(site / "muster-working-tree.pth", new_site)
    shutil.copy(made / "pyvenv.cfg", moved / ".venv")
    shutil.copytree(made / "bin", moved / ".venv" / "bin", symlinks=True)
    (moved / "muster").mkdir()
    (moved / "muster" / "__init__.py").touch()
    (moved / "muster" / "__main__.py").write_text(SAYS)
    launcher = moved / ".venv" / "bin" / "muster"
    (tmp_path / "link").symlink_to(launcher)
    for path in (launcher, tmp_path / "link"):
        done = subprocess.run([path], cwd="/", capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(moved / "muster" / "__init__.py")
