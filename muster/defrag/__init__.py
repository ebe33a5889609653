"""Plans that move pods together, so that larger ones fit. Pure: reading a cluster and evicting from
it are the command's (muster/cli/commands/).
"""
