"""XML: what is written for people becomes prose, everything else keeps its structure.

`tree` parses, safely; `prose` and the modules it uses write documents, `data` the rest.
"""
