"""skerry.compression"""
