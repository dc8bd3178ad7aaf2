"""Heat maps and flame graphs of files or histories: `meantime.heatmap` and `meantime.flame`.

Views take histories and know no files; these functions open what is given as a path.
"""
