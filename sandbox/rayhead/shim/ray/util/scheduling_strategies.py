"""Where a task may run."""


class NodeAffinitySchedulingStrategy:
    """Pins a task to one node."""

    def __init__(self, node_id, soft):
        del soft
        self.node_id = node_id
