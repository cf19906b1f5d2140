"""The data sets of the paper: recipes for the real ones, generators for the synthetic ones."""
