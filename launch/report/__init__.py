"""`laser report`: what a run or a sweep came to, as one page that stands by itself."""
