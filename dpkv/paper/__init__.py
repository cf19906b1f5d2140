"""What exists to reproduce the paper: its calibration, its comparison table, its experiments.

Nothing that a certified release needs is here, and nothing of it imports this package.

``spread``, ``monotonicity``  the quantities of its Definitions, exact, certified and randomised
``published_calibration``     the noise that follows from them, as printed
``printed_figures``           what its tables print
``comparison``                its Table 1, with numbers
``studies``                   its experiments
``datasets``                  where its tables are to be had, and families to make
"""
