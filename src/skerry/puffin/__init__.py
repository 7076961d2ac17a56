"""skerry.puffin"""
