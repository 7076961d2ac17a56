"""skerry.spark"""
