"""`laser report`: the results of a run or a sweep as one self-contained page."""
