"""`laser dashboard`: a local web page about runs. It only reads what they leave in their directories."""
