"""The pages of the dashboard, one file each: a layout, and the callbacks that fill it."""
