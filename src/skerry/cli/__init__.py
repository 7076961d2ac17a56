"""skerry.cli"""
