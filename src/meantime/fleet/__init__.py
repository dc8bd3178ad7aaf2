"""Traces of many hosts as one: each is read where it is, and only what is added up travels."""

from meantime.fleet.fleet import Answer, Fleet, Host, HostAnomaly

__all__ = ["Answer", "Fleet", "Host", "HostAnomaly"]
