"""What Ray knows about reservations."""
import ray


def available_resources_per_node():
    """Returns what tasks and actors have not reserved, by node."""
    return {node["NodeID"]: node["available"] for node in ray._cluster["nodes"] if node["Alive"]}
