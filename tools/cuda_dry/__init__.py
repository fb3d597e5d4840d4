"""What can be known of PyTorch's CUDA build without a GPU: ``tools/cuda_dry.sh``."""
