"""What Hopper has beside its threads: mbarriers, bulk and tensor copies, `wgmma`, clusters, and registers that move.

`engines` holds all of it for a chunk; `mbarriers` (phases and who waits), `transfers` (copies in flight), `maps` and
`boxes` (tensor maps, and the elements that a box of one touches), `products` and `descriptors` (`wgmma`), `clusters`
and `meetings` (other blocks' memory, and their barriers) and `pool` (registers) are its parts, and `checks` is what is
checked about an engine's accesses.
"""
