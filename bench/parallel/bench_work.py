"""What is computed, wherever: a loop of plain Python that touches no memory to speak of."""


def spin(steps: int) -> int:
    total = 0
    for step in range(steps):
        total += step * step % 7
    return total
