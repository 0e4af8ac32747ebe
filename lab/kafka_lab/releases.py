"""Which jars a Kafka release needs to run brokers, and the reassignment tool, without Kafka's own distribution."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from kafka_lab.errors import LocalClusterError

DEFAULT_VERSION = "4.3.1"


@dataclass(frozen=True, slots=True)
class Dependency:
    """Maven coordinates of a module; with classifiers, of its artifacts with these (``""`` is the main one)."""

    organisation: str
    module: str
    revision: str
    classifiers: tuple[str, ...] = ()

    @property
    def ivy_element(self) -> str:
        """Its element of an ``ivy.xml``."""
        name = quoteattr(self.module)
        element = f"<dependency org={quoteattr(self.organisation)} name={name} rev={quoteattr(self.revision)} "
        element += 'conf="default->default"'
        if not self.classifiers:
            return f"{element}/>"
        artifacts = (
            f"<artifact name={name}" + (f" m:classifier={quoteattr(classifier)}" if classifier else "") + "/>"
            for classifier in self.classifiers
        )
        return f"{element}>{''.join(artifacts)}</dependency>"


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A Kafka release by its numbers; prints as ``4.3.1``."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @classmethod
    def parse(cls, version: str) -> Release:
        """Read ``4.3.1``.

        Raises:
            LocalClusterError: it is not of that form, or older than brokers that run on a Java of today.
        """
        numbers = re.fullmatch(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})", version.strip(), re.ASCII)
        if numbers is None:
            raise LocalClusterError(
                f"Kafka version {version!r} is not a release, expected three numbers such as {DEFAULT_VERSION}. "
                "Name a release that is on Maven Central."
            )
        release = cls(*(int(n) for n in numbers.groups()))
        if release < Release(2, 0, 0):
            raise LocalClusterError(
                f"Kafka {release} cannot run here: expected 2.0.0 or later (3.9.0 or later without ZooKeeper). "
                "Name a later release."
            )
        return release

    @property
    def has_kraft_only(self) -> bool:
        """Whether ZooKeeper is gone (KIP-500, removed in 4.0)."""
        return self.major >= 4

    @property
    def runs_with_kraft(self) -> bool:
        """Whether a ``LocalCluster`` runs it; 3.9 is the first release that was tried with a KRaft controller."""
        return self >= Release(3, 9, 0)

    @property
    def java(self) -> int:
        """The oldest Java its brokers run on (KIP-750, KIP-1013)."""
        return 17 if self.has_kraft_only else 8

    @property
    def logs_with_log4j2(self) -> bool:
        """Whether its logging backend is Log4j 2 (KIP-653, since 4.0); before, reload4j."""
        return self.major >= 4

    @property
    def reassignment_tool(self) -> str:
        """Main class of kafka-reassign-partitions (moved from core to tools in 3.6, KAFKA-14595)."""
        moved = self >= Release(3, 6, 0)
        return (
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
            if moved
            else ("kafka.admin.ReassignPartitionsCommand")
        )

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """What to resolve: the broker, its tools and a logging backend (without one brokers log nothing).

        From 4.0 on also Kafka's own stand-in for a remote store (KIP-405), which it publishes with its tests.
        """
        scala = "2.13" if self >= Release(2, 6, 0) else "2.12"
        wanted = [Dependency("org.apache.kafka", f"kafka_{scala}", str(self))]
        if self >= Release(3, 6, 0):
            wanted.append(Dependency("org.apache.kafka", "kafka-tools", str(self)))
        if self.logs_with_log4j2:
            wanted.append(Dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"))
            wanted.append(Dependency("org.apache.kafka", "kafka-storage", str(self), ("", "test")))
        else:
            wanted.append(Dependency("org.slf4j", "slf4j-reload4j", "1.7.36"))
        if self < Release(2, 6, 0):
            # Their ZooKeeper client cannot connect on Java 14 and later ("Unable to canonicalize address",
            # ZOOKEEPER-3779); this one can, and they run on it.
            wanted.append(Dependency("org.apache.zookeeper", "zookeeper", "3.5.9"))
        return tuple(wanted)

    def ivy_module(self) -> str:
        """The ``ivy.xml`` that resolves the dependencies; also the recipe by which a cached copy is recognised."""
        wanted = "\n".join(f"    {dependency.ivy_element}" for dependency in self.dependencies)
        return f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="kafka-reassignment" module="brokers" revision={quoteattr(str(self))}/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{wanted}
    <!-- the tools jar drags in Connect with a whole web server; none of our tools needs it -->
    <exclude org="org.apache.kafka" module="connect-.*" matcher="regexp"/>
    <exclude org="com.fasterxml.jackson.jakarta.rs"/>
    <!-- one logging backend only -->
    <exclude org="log4j"/>
    <exclude org="ch.qos.logback"/>
    <exclude org="org.slf4j" module="slf4j-log4j12"/>
  </dependencies>
</ivy-module>
"""
