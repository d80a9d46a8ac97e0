"""The passes, one file each: IR before and after in the docstring, and one public function `Module -> bool`.

Each says whether it changed anything. `pipeline.py` lists them in the order in which they run.
"""
