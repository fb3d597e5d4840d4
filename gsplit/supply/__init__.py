"""From the samplers to the trainers: tickets, the processes that sample, the ring of slots, the order. No torch."""
