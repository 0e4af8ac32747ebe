"""Ports, racks and files of the nodes."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from kafka_lab.nodes import (
    HOST,
    free_ports,
    last_log_lines,
    port_was_taken,
    rack_of,
    random_uuid,
    read_property,
    write_properties,
)

pytestmark = pytest.mark.quick


def test_chosen_ports_are_all_different_and_can_be_listened_on():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.create_server((HOST, port)):
            pass


def test_ports_are_never_those_the_system_gives_to_outgoing_connections():
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(free_ports(200)) < lowest


def test_a_port_that_is_listened_on_is_not_chosen():
    candidates = free_ports(50)
    with socket.create_server((HOST, candidates[0])):
        everything_else = free_ports(11_000)
    assert candidates[0] not in everything_else


def test_a_port_of_a_broker_that_is_down_is_not_given_to_another():
    taken = frozenset(free_ports(50))
    assert taken.isdisjoint(free_ports(11_000, taken))


def test_brokers_go_round_the_racks():
    assert [rack_of(i, 3) for i in range(7)] == ["a", "b", "c", "a", "b", "c", "a"]


def test_ids_are_as_kafka_makes_them():
    ids = [random_uuid() for _ in range(500)]
    assert len(set(ids)) == 500
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", uuid) for uuid in ids)


def test_properties_are_read_back_as_written(tmp_path):
    file = tmp_path / "meta.properties"
    write_properties(file, {"version": 1, "cluster.id": "a=b", "node.id": 7})
    assert [read_property(file, key) for key in ("cluster.id", "node.id", "id")] == ["a=b", "7", None]


def test_errors_are_the_last_log_lines_before_anything_else(tmp_path):
    (tmp_path / "server.log").write_text("1 INFO a\n2 ERROR kafka.Kafka out of disk\n3 INFO b\n")
    assert last_log_lines(tmp_path) == "2 ERROR kafka.Kafka out of disk"


def test_a_node_without_a_log_is_known_by_its_console(tmp_path):
    (tmp_path / "console.log").write_text("Unrecognized VM option\n")
    assert last_log_lines(tmp_path) == "Unrecognized VM option"
    assert not port_was_taken(tmp_path)


def test_a_taken_port_is_distinguished_from_other_errors(tmp_path):
    (tmp_path / "server.log").write_text("FATAL java.net.BindException: Address already in use\n")
    assert port_was_taken(tmp_path)
