"""Heat maps and flame graphs of files or histories: `meantime.heatmap` and `meantime.flame`.

Views take histories, not files; these functions also take paths, which they open.
"""
