"""skerry.catalog"""
