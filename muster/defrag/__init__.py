"""Plans that move pods together, so that larger ones fit. Pure: the command reads the cluster and
evicts (muster/cli/commands/defrag/).
"""
