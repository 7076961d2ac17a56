"""skerry.jobs"""
