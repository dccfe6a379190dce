"""Debian packages as sources of text: fetched and unpacked, never installed. For scripts/corpus-english and -pairs."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


class Package:
    def __init__(self, name, version, root):
        self.name, self.version, self.root = name, version, root

    def copyright_file(self):
        path = self.root / "usr/share/doc" / self.name / "copyright"
        return path if path.is_file() else None

    def keep_licence(self, to):
        path = self.copyright_file()
        if path is not None:
            (to / "licences").mkdir(exist_ok=True)
            shutil.copyfile(path, to / "licences" / self.name)


def packages_in(names, unpacked):
    """Each package by its name: from folders of `unpacked`, or fetched with apt-get into a folder that goes again."""
    if unpacked is not None:
        for name in names:
            if not (unpacked / name).is_dir():
                sys.exit(f"{unpacked / name}: no such folder (wanted: one for each package)")
            yield Package(name, "as given", unpacked / name)
        return
    for name in names:
        with tempfile.TemporaryDirectory(prefix="kith-corpus-") as folder:
            fetched = subprocess.run(["apt-get", "-q", "download", name], cwd=folder, capture_output=True, text=True)
            files = list(pathlib.Path(folder).glob("*.deb"))
            if fetched.returncode != 0 or len(files) != 1:
                sys.exit(f"{name}: apt-get download failed: {fetched.stderr.strip()} (--packages takes others)")
            root = pathlib.Path(folder) / "root"
            subprocess.run(["dpkg", "-x", files[0], root], check=True)
            version = subprocess.run(["dpkg-deb", "-f", files[0], "Version"], check=True, capture_output=True, text=True)
            yield Package(name, version.stdout.strip(), root)


def write_sources(to, title, rows):
    """SOURCES.md: what came from where, under which licences."""
    lines = [f"# {title}", "", "Each package's copyright file is in `licences/`.", "",
             "| package | version | taken | size | licences |", "|---|---|---|---|---|"]
    for package, taken, size in rows:
        # The root is gone for fetched packages; the kept copy is what counts.
        lines.append(f"| {package.name} | {package.version} | {taken} | {size} | {licences_of(to, package)} |")
    (to / "SOURCES.md").write_text("\n".join(lines) + "\n")


def licences_of(to, package):
    kept = to / "licences" / package.name
    if not kept.is_file():
        return "not stated in the package"
    names = re.findall(r"^License: *(\S[^\n]*)", kept.read_text(errors="replace"), flags=re.M)
    unique = list(dict.fromkeys(name.strip() for name in names))
    return (", ".join(unique[:8]) + (" and others" if len(unique) > 8 else "")) or "see its copyright file"
