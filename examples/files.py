"""Which files are open, and how many bytes were read from and written to each so far."""

import meantime


class Files(meantime.StateProvider):
    def __init__(self):
        self.paths = {}

    def handle(self, event, state):
        descriptor = event["tid"], event["fd"]
        if event.name == "open":
            self.paths[descriptor] = event["path"]
        if descriptor in self.paths:
            file = state.quark("Files", self.paths[descriptor])
            if event.name in ("read", "write"):
                state.increment(event.time_ns, state.quark(event.name, parent=file), event["bytes"])
            else:
                state.modify(event.time_ns, file, "open" if event.name == "open" else None)
