"""A mix of workloads played on virtual time: jobs and Deployments that come, end, scale and lose
nodes, drawn from a seed. The services decide; controllers and nodes are simulated here.
"""
