"""The jars of a Kafka release: fetched once from Maven Central, kept in a cache, checked at each use.

They are resolved by Apache Ivy, whose jar ships with PySpark, so that neither Maven nor Kafka's own
distribution is needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from kafka_lab.errors import LocalClusterError
from kafka_lab.java import find_java
from kafka_lab.processes import Lifeline
from kafka_lab.releases import DEFAULT_VERSION, Release
from kafka_reassignment.errors import name_some

log = logging.getLogger(__name__)

LogLine = Callable[[str], None]
"""Takes one line about progress."""

CACHE_VARIABLE = "KAFKA_REASSIGNMENT_CACHE"
IVY_SETTINGS_VARIABLE = "KAFKA_REASSIGNMENT_IVY_SETTINGS"

MANIFEST = "manifest.json"
_ATTEMPTS = 3
# Ivy's own default root of a Maven 2 layout is Maven Central.
_IVY_SETTINGS = (
    '<ivysettings><settings defaultResolver="central"/>'
    '<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>\n'
)


@dataclass(frozen=True, slots=True)
class JarSet:
    """The checked jars of one release; ``directory`` may also keep what is derived from them."""

    release: Release
    directory: Path
    jars: tuple[Path, ...]

    @property
    def classpath(self) -> str:
        """All jars, always in the same order: class archives fit only the order they were made with."""
        return os.pathsep.join(str(jar) for jar in self.jars)


def cache_directory() -> Path:
    """Where fetched jars are kept: ``$KAFKA_REASSIGNMENT_CACHE``, else the user's cache directory."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else user_cache_path("kafka-reassignment", appauthor=False)


def fetch_jars(version: str = DEFAULT_VERSION, *, cache: Path | None = None, log_line: LogLine = log.info) -> JarSet:
    """Return the jars of a Kafka version, fetching them when the cache has none, or damaged ones.

    Safe when several processes start at once (one fetches, the others wait) and when killed half-way
    (the folder appears complete or not at all).

    Raises:
        LocalClusterError: no Java, no network, no such version, or no room to write.
    """
    release = Release.parse(version)
    cache = cache or cache_directory()
    home = cache / f"kafka-{release}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"kafka-{release}.lock"):
            damage = damage_of(home, release)
            if damage is not None:
                if home.exists():
                    log_line(f"The cached jars of Kafka {release} are not usable ({damage}); fetching them again.")
                _fetch(release, home, log_line)
            return JarSet(release, home, tuple(sorted(home.glob("*.jar"))))
    except OSError as failed:
        raise LocalClusterError(
            f"Cannot keep the jars of Kafka {release} in {cache}: expected a directory that can be written, "
            f"found: {failed}. Make room or rights there, or set {CACHE_VARIABLE} to another directory."
        ) from failed


def damage_of(home: Path, release: Release) -> str | None:
    """Compare a folder of jars with its manifest, file by file; None when all is as it was fetched."""
    try:
        manifest = json.loads((home / MANIFEST).read_text(encoding="utf-8"))
        recipe, wanted = manifest["recipe"], dict(manifest["jars"])
    except FileNotFoundError:
        return "there is no manifest"
    except (ValueError, KeyError, TypeError):
        return "the manifest cannot be read"
    if recipe != recipe_of(release):
        return "they were fetched by another version of this project"
    found = {jar.name: jar for jar in home.glob("*.jar")}
    if strange := sorted(found.keys() ^ wanted.keys()):
        return f"missing or not in the manifest: {name_some(strange)}"
    changed = [name for name, jar in sorted(found.items()) if fingerprint(jar) != wanted[name]]
    return f"changed on disk: {name_some(changed)}" if changed else None


def fingerprint(file: Path) -> dict[str, int | str]:
    """Size and SHA-256 of a file, as the manifest has them."""
    with file.open("rb") as opened:
        return {"bytes": file.stat().st_size, "sha256": hashlib.file_digest(opened, "sha256").hexdigest()}


def recipe_of(release: Release) -> str:
    """Fingerprint of what is resolved for a release; a cached copy made by another recipe is fetched again."""
    return hashlib.sha256(release.ivy_module().encode()).hexdigest()


def _fetch(release: Release, home: Path, log_line: LogLine) -> None:
    """Fetch into a folder beside ``home``, then swap; called under the lock."""
    for left_behind in home.parent.glob(f".{home.name}.*"):
        shutil.rmtree(left_behind, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
    lifeline = Lifeline(remove=work)
    try:
        jars = work / "jars"
        _resolve(release, work, jars, lifeline, log_line)
        fetched = {jar.name: fingerprint(jar) for jar in sorted(jars.glob("*.jar"))}
        manifest = {"recipe": recipe_of(release), "jars": fetched}
        (jars / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(home, ignore_errors=True)
        jars.rename(home)
    finally:
        lifeline.release()
        shutil.rmtree(work, ignore_errors=True)
    megabytes = sum(jar.stat().st_size for jar in home.glob("*.jar")) / 1e6
    log_line(f"Kafka {release}: {len(fetched)} jars, {megabytes:.0f} MB, in {home}")


def _resolve(release: Release, work: Path, jars: Path, lifeline: Lifeline, log_line: LogLine) -> None:
    module = work / "ivy.xml"
    module.write_text(release.ivy_module(), encoding="utf-8")
    own_settings = os.environ.get(IVY_SETTINGS_VARIABLE)
    settings = Path(own_settings) if own_settings else work / "ivysettings.xml"
    if not own_settings:
        settings.write_text(_IVY_SETTINGS, encoding="utf-8")
    command = [find_java(8).path, "-jar", str(ivy_jar())]
    command += ["-settings", str(settings), "-cache", str(work / "ivy"), "-ivy", str(module), "-confs", "default"]
    command += ["-retrieve", str(jars / "[artifact]-[revision](-[classifier]).[ext]")]
    log_line(f"Fetching the jars of Kafka {release} (about a minute, once) ...")
    said: deque[str] = deque(maxlen=200)
    for _ in range(_ATTEMPTS):  # what was downloaded is kept, so another attempt only asks for the rest
        if _run_ivy(command, said, lifeline, log_line) == 0 and any(jars.glob("*.jar")):
            return
    found = [re.sub(r"\s+", " ", line).strip(": ") for line in said if _complains(line)]
    raise LocalClusterError(
        f"Cannot fetch the jars of Kafka {release}: expected them on Maven Central, found: "
        f"{'; '.join(list(dict.fromkeys(found))[-4:]) or ' '.join(list(said)[-3:]) or 'no answer'}. "
        "Check the version and the network. Behind a proxy set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=... ; "
        f"for a mirror point {IVY_SETTINGS_VARIABLE} to an ivysettings.xml of yours."
    )


def _run_ivy(command: list[str], said: deque[str], lifeline: Lifeline, log_line: LogLine) -> int:
    said.clear()
    resolved = downloaded = 0
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        process_group=lifeline.group,
        text=True,
        errors="replace",
    ) as ivy:
        assert ivy.stdout is not None
        try:
            for line in ivy.stdout:
                said.append(line.rstrip())
                if line.startswith("\tfound "):
                    resolved += 1
                    if resolved % 10 == 0:
                        log_line(f"  {resolved} jars found")
                if "[SUCCESSFUL ]" in line:
                    downloaded += 1
                    if downloaded % 10 == 0:
                        log_line(f"  {downloaded} jars downloaded")
        except BaseException:
            ivy.kill()
            raise
    return ivy.returncode


def _complains(line: str) -> bool:
    return bool(re.search(r"not found|unresolved|unknown host|exception|refused|timed out|failed|error", line, re.I))


def ivy_jar() -> Path:
    """Find Ivy among PySpark's jars, without importing PySpark.

    Raises:
        LocalClusterError: PySpark is not installed, or comes without its jars.
    """
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    found = sorted(folder.glob("ivy-*.jar")) if folder else []
    if not found:
        raise LocalClusterError(
            f"Cannot fetch jars without Apache Ivy: expected ivy-*.jar in {folder or 'an installed PySpark'}, "
            "found none. Install the 'pyspark' package (not 'pyspark-client')."
        )
    return found[-1]
