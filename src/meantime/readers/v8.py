"""The nodes of a V8 CPU profile: a tree of calls, each node a stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meantime.model.stacks import NO_STACK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meantime.model.stacks import StackTableBuilder

__all__ = ["NodeTree"]

# The root node, which is not a function.
_ROOT = "(root)"


class NodeTree:
    """Nodes by id; children may come before their parents and in several pieces."""

    def __init__(self, stacks: StackTableBuilder) -> None:
        self._stacks = stacks
        self._parent: dict[int, int] = {}
        self._name: dict[int, str] = {}
        self._known: dict[int, int] = {}

    def add(self, nodes: Iterable[dict[str, Any]]) -> None:
        """Add nodes of a profile, which have either `parent` or `children`.

        Raises:
            AttributeError, TypeError, ValueError: If they are malformed.
        """
        for node in nodes:
            id_ = int(node["id"])
            # .cpuprofile files and trace chunks nest the name, older versions do not
            call = node.get("callFrame") or node
            self._name[id_] = str(call.get("functionName") or "(anonymous)")
            if (parent := node.get("parent")) is not None:
                self._parent[id_] = int(parent)
            for child in node.get("children") or []:
                self._parent[int(child)] = id_

    def add_tree(self, head: dict[str, Any]) -> list[dict[str, Any]]:
        """Add a root with the nodes that are in each other, and return all of them.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: If they are malformed.
        """
        nodes = []
        waiting = [head]
        while waiting:
            node = waiting.pop()
            inner = node.get("children") or []
            self.add([{**node, "children": [child["id"] for child in inner]}])
            nodes.append(node)
            waiting += reversed(inner)
        return nodes

    def stack(self, node: int) -> int:
        """Return the stack of a node; `NO_STACK` for the root and for unknown nodes."""
        chain = []
        while node not in self._known and node in self._name:
            chain.append(node)
            self._known[node] = NO_STACK  # a cycle of parents ends here
            node = self._parent.get(node, -1)
        stack = self._known.get(node, NO_STACK)
        for id_ in reversed(chain):
            name = self._name[id_]
            if name != _ROOT:
                stack = self._stacks.push(stack, self._stacks.frame(name))
            self._known[id_] = stack
        return stack
