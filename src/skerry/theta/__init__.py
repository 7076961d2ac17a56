"""skerry.theta"""
