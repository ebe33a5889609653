"""The CEL selectors of device classes and claims: the part of Kubernetes' environment that they
need. Nothing about pools, requests or nodes belongs here.
"""
