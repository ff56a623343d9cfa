"""`laser dashboard`: a local web page about runs. It only reads the files of run directories."""
