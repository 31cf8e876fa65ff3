#!/usr/bin/env python3
"""Prints what the program is made of, as CycloneDX 1.5 JSON: libraries that it links, and headers compiled into it.

    tools/make/make_sbom.py PROGRAM > sbom.json

Versions are those of the Debian packages here, licences those of NOTICE. Fails where NOTICE does not name a library that is linked.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEM = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libpthread", "libgcc_s", "libstdc++")  # of the platform
# As NOTICE names them; by the beginning of a library's file, or by the package whose headers are compiled in.
LINKED = {"libfmt": "fmt", "libtbb": "oneTBB", "libyaml-cpp": "yaml-cpp", "libsqlite3": "SQLite", "libglog": "glog",
          "libgflags": "gflags", "libunwind": "libunwind", "liblzma": "liblzma"}
COMPILED = {"libceres-dev": "Ceres Solver", "libeigen3-dev": "Eigen", "nlohmann-json3-dev": "nlohmann-json", "libcli11-dev": "CLI11",
            "libtomlplusplus-dev": "toml++", "libexpected-dev": "tl::expected"}
SPDX = {"MIT": "MIT", "Apache-2.0": "Apache-2.0", "BSD-3-Clause": "BSD-3-Clause", "MPL-2.0": "MPL-2.0", "CC0-1.0": "CC0-1.0"}


def told(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def notice():
    """Of each name in NOTICE its licence and address."""
    rows = re.findall(r"^  (\S+(?: \S+)?) +(\S.*?) {2,}.*?(https?://\S+)", (ROOT / "NOTICE").read_text(), re.M)
    return {name: (licence, address) for name, licence, address in rows}


def component(name, version, known, scope):
    if name not in known:
        sys.exit(f"NOTICE does not name {name}")
    licence, address = known[name]
    spdx = SPDX.get(re.split(r"[ ,(]", licence)[0])
    return {"type": "library", "name": name, "version": version, "purl": f"pkg:generic/{name.replace(' ', '-')}@{version}",
            "licenses": [{"license": {"id": spdx} if spdx else {"name": licence}}],
            "externalReferences": [{"type": "website", "url": address}],
            "properties": [{"name": "trainwright:how", "value": scope}]}


def main():
    program = sys.argv[1]
    known, components = notice(), []
    for file, path in re.findall(r"^\s*(\S+) => (\S+)", told("ldd", program), re.M):
        if file.startswith(SYSTEM):
            continue
        prefix = file.split(".so")[0]
        if prefix not in LINKED:
            sys.exit(f"{file} is linked, but tools/make/make_sbom.py and NOTICE do not know it")
        package = told("dpkg", "-S", "*/" + pathlib.Path(path).resolve().name)  # under /lib or /usr/lib
        version = told("dpkg-query", "-W", "-f", "${Version}", package.split(": ")[0])
        components.append(component(LINKED[prefix], version, known, "linked"))
    for package, name in COMPILED.items():
        components.append(component(name, told("dpkg-query", "-W", "-f", "${Version}", package), known, "compiled in"))
    version = told(program, "--version").split()[1]
    print(json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": {
        "type": "application", "name": "trainwright", "version": version, "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": sorted(components, key=lambda one: one["name"].lower())}, indent=2))


main()
