"""skerry.iceberg"""
