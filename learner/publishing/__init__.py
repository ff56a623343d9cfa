"""Publishing: versions of the parameters, and where actors find them."""
