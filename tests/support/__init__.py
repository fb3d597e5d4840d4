"""What several tests share: slow references, tiny graphs, a pool of trainers."""
