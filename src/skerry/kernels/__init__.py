"""skerry.kernels"""
