"""skerry.parquet"""
