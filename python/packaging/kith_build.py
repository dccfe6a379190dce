"""What pip asks to build a wheel of kith (PEP 517): CMake and the standard library, so there is nothing to download.

CMAKE_ARGS adds arguments for CMake (-DKITH_CUDA=ON), KITH_WHEEL_BUILD names the folder to build in (default: build/wheel).
"""

import base64
import glob
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def get_requires_for_build_wheel(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    package = _build()
    version = _version()
    tag = _tag()
    info = f"kith-{version}.dist-info"
    files = {f"kith/{os.path.basename(path)}": path for path in sorted(glob.glob(os.path.join(package, "*"))) if os.path.isfile(path)}
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: kith\nVersion: {version}\n"
        "Summary: Decentralised training of PyTorch models\nLicense: Apache-2.0\nRequires-Python: >=3.8\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: kith_build\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    name = f"kith-{version}-{tag}.whl"
    record = []
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for inside, path in files.items():
            with open(path, "rb") as file:
                _add(wheel, record, inside, file.read(), os.stat(path).st_mode)
        for inside, text in texts.items():
            _add(wheel, record, inside, text.encode(), 0o644)
        record.append(f"{info}/RECORD,,")
        wheel.writestr(f"{info}/RECORD", "\n".join(record) + "\n")
    return name


def _build():
    """Builds the front for this interpreter; the folder that holds the package."""
    build = os.environ.get("KITH_WHEEL_BUILD") or os.path.join(SOURCE, "build", "wheel")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    parts = [f"-DKITH_{part}=OFF" for part in ("TRAIN", "TESTS", "BENCH", "CLI")]
    front = ["-DKITH_PYTHON_FRONT=ON", f"-DKITH_PYTHON={sys.executable}", "-DCMAKE_BUILD_TYPE=Release"]
    unity = ["-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=12"]  # built once: half the work
    arguments = shlex.split(os.environ.get("CMAKE_ARGS", ""))
    subprocess.run(["cmake", "-S", SOURCE, "-B", build, *generator, *parts, *front, *unity, *arguments], check=True)
    subprocess.run(["cmake", "--build", build, "--target", "kith_python", "--parallel"], check=True)
    return os.path.join(build, "python", "kith")


def _version():
    with open(os.path.join(SOURCE, "CMakeLists.txt")) as file:
        return re.search(r"project\(kith VERSION ([0-9.]+)", file.read()).group(1)


def _tag():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{re.sub('[-.]', '_', sysconfig.get_platform())}"


def _add(wheel, record, name, content, mode):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record.append(f"{name},sha256={digest},{len(content)}")
    entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    entry.external_attr = (mode & 0o777 | 0o100000) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(entry, content)
