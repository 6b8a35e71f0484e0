"""Speed and exactness, side by side with the peers (``lupi bench``)."""
