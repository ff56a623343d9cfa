"""Publishing: versions of the parameters, and the store from which actors read them."""
