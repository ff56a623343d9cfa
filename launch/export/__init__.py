"""Export of a trained policy to a file that needs no LASER: ONNX, or a program of PyTorch."""
