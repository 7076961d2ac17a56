"""skerry.avro"""
