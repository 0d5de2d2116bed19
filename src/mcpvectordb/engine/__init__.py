"""The knowledge base's engine: notes and files over HTTP below /api/v1, on the core of every other way in.

It sees certain libraries only (`knowledge.py`), so that an agent it serves never reaches the owner's others.
"""
