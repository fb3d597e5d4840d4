"""What only GPUs show, part by part, each with a limit of its own: ``tools/gpu_check.sh``."""
