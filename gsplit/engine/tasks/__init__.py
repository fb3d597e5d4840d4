"""What is learned: labels of vertices, or links between them. The seam between the loop and the loss."""

from gsplit.engine.tasks.task import Forward, Task
from gsplit.engine.tasks.vertices import VertexTask

__all__ = ["Forward", "Task", "VertexTask"]
