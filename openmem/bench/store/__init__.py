"""What the session store costs, beside what the libraries and the machine allow in the same run.

Everything is made from a seed and measured in turns with its floor; figures are medians. Times of
one process are processor time, so that a busy machine makes them noisy but not longer; where other
programs or the disk take part it is elapsed time, and the figure's name says so.
"""
