"""Where components live: threads of this process, or Ray on one machine or many."""
