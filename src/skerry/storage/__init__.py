"""skerry.storage"""
