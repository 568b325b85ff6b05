"""What a worker's parent and its children send each other, over a socket that keeps packets apart."""

# A child's words: it has nothing more to do, it has nothing more to do and leaves, its job moved.
FREE, LEAVING, MOVED = b".", b"!", b"~"
LARGEST_PACKET = 65536  # bytes; a group of a hundred claims needs a third of it
