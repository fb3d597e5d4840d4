"""What hands mini-batches from the samplers to the trainers. Imports no torch.

A mini-batch passes the modules in this order:

| module | what it does with a mini-batch |
|---|---|
| ``tickets`` | numbers it |
| ``dispatch`` | gives its ticket and a slot to a sampler: an assignment |
| ``pool`` | keeps the sampler processes, and sends them their assignments |
| ``sampler_process`` | samples and splits it |
| ``ring`` | keeps its segments in a slot; a handle says where they lie |
| ``order`` | says which finished mini-batch is trained next |
| ``pipes`` | joins all of these processes, and brings slots back that trainers have let go of |
"""
