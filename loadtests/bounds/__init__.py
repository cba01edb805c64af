"""What a fleet must cost at least when all traffic is known beforehand: the yardsticks of a comparison."""
