"""What the readers of Office formats share: packages of XML parts, Markdown blocks, styles, charts, formulas.

Nothing here decides what a format is, and nothing opens a file or follows a reference out of the document:
readers hand in bytes, and a target outside the package stays a string.
"""
